package bpf
import ("testing";"errors";"fmt"
"github.com/cilium/ebpf")
func TestLoadX(t *testing.T){
 for _, rp := range []uint8{0,1} {
 spec,err:=LoadPolicer(); if err!=nil {t.Fatal(err)}
 if err:=spec.Variables["replay"].Set(rp); err!=nil {t.Fatal(err)}
 coll,err:=ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
 var ve *ebpf.VerifierError
 if errors.As(err,&ve){ n:=len(ve.Log); if n>70 {ve.Log=ve.Log[n-70:]}; t.Fatal(fmt.Sprintf("%+v",ve)) }
 if err!=nil {t.Fatal(err)}
 for n,p:=range coll.Programs { fmt.Println(n,p.VerifierLog) }
 coll.Close()
 }
}
