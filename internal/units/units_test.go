package units

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"0bit":                {0, false},
		"0B/s":                {0, false},
		"8bit":                {1, false},
		"10mbit":              {1_250_000, false},
		"10 Mbit/s":           {1_250_000, false},
		" 10Mbit ":            {1_250_000, false},
		"2.048mbit":           {256_000, false},
		"1.5gbit":             {187_500_000, false},
		"1tbit":               {125_000_000_000, false},
		"8kibit":              {1024, false},
		"1mibit":              {131_072, false},
		"1gibit":              {134_217_728, false},
		"1tibit":              {137_438_953_472, false},
		"3B/s":                {3, false},
		"1kB/s":               {1000, false},
		"1.5MB/s":             {1_500_000, false},
		"1GB/s":               {1_000_000_000, false},
		"64KiB/s":             {65_536, false},
		"1MiB/s":              {1 << 20, false},
		"1GiB/s":              {1 << 30, false},
		"137438953472B/s":     {MaxRate, false},
		"100pps":              {100, true},
		"1.5kpps":             {1500, true},
		"3Mpps":               {3_000_000, true},
		"10.000000000000mbit": {1_250_000, false},
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// refusals are texts with the sentinel and the words their error must hold.
type refusals map[string]struct {
	kind  error
	words string // separated by |
}

func (r refusals) check(t *testing.T, parse func(string) error) {
	t.Helper()
	for text, want := range r {
		err := parse(text)
		if !errors.Is(err, want.kind) {
			t.Errorf("%q: error %v; want one that wraps %v", text, err, want.kind)
			continue
		}
		for _, word := range strings.Split(want.words, "|") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q: error %q does not say %q", text, err, word)
			}
		}
	}
}

func TestParseRateRefuses(t *testing.T) {
	refusals{
		"":                              {ErrSyntax, "nothing"},
		"fast":                          {ErrSyntax, "begin with a number"},
		"-1mbit":                        {ErrSyntax, "sign"},
		"1.mbit":                        {ErrSyntax, "not a number"},
		".5mbit":                        {ErrSyntax, "not a number"},
		"1.2.3mbit":                     {ErrSyntax, "not a number"},
		"1,000bit":                      {ErrSyntax, "unit"},
		"1e6bit":                        {ErrSyntax, "unit"},
		"10parsec":                      {ErrSyntax, `"parsec"|mbit`},
		"10ms":                          {ErrSyntax, `"ms"`},
		"10pkt":                         {ErrSyntax, "pps"},
		"10":                            {ErrUnclear, "10bit|10B/s"},
		"10m":                           {ErrUnclear, "10mbit|10MB/s"},
		"10k":                           {ErrUnclear, "10kbit|10kB/s"},
		"10bps":                         {ErrUnclear, "10bit|10B/s"},
		"10kbps":                        {ErrUnclear, "10kbit|10kB/s"},
		"10Mbps":                        {ErrUnclear, "10mbit|10MB/s"},
		"10kb":                          {ErrUnclear, "10kbit|10kB/s"},
		"10kb/s":                        {ErrUnclear, "10kbit|10kB/s"},
		"10mB/s":                        {ErrUnclear, "10mbit|10MB/s"},
		"10MB":                          {ErrUnclear, "10mbit|10MB/s"},
		"10KB/s":                        {ErrUnclear, "10kB/s|10KiB/s"},
		"010mbit":                       {ErrUnclear, "10mbit|8mbit"},
		"010":                           {ErrUnclear, "10|8"},
		"09mbit":                        {ErrUnclear, "9mbit"},
		"00mbit":                        {ErrUnclear, "0mbit"},
		"1bit":                          {ErrNotWhole, "0bit (0B/s)|8bit (1B/s)"},
		"1000001bit":                    {ErrNotWhole, "1000000bit (125000B/s)|1000008bit (125001B/s)"},
		"0.5B/s":                        {ErrNotWhole, "(0B/s)|(1B/s)"},
		"0.5pps":                        {ErrNotWhole, "0pps|1pps"},
		"137438953473B/s":               {ErrRange, "137438953472"},
		"1099511627777bit":              {ErrRange, "137438953472"},
		"2tbit":                         {ErrRange, "too much"},
		"137438953473pps":               {ErrRange, "137438953472 pps"},
		"99999999999tbit":               {ErrRange, "too much"},
		"18446744073709.6mbit":          {ErrRange, "too much"},
		strings.Repeat("9", 65) + "bit": {ErrRange, "too long"},
	}.check(t, func(s string) error { _, err := ParseRate(s); return err })
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0B":          {},
		"1500B":       {Amount: 1500},
		"1kB":         {Amount: 1000},
		"96KiB":       {Amount: 98_304},
		"96 KiB":      {Amount: 98_304},
		"1.5MB":       {Amount: 1_500_000},
		"0.5KiB":      {Amount: 512},
		"2GB":         {Amount: 2_000_000_000},
		"1GiB":        {Amount: 1 << 30},
		"9223372036B": {Amount: MaxBurst},
		"32pkt":       {Amount: 32, Packets: true},
		"10ms":        {Time: 10 * time.Millisecond, IsTime: true},
		"1.5us":       {Time: 1500 * time.Nanosecond, IsTime: true},
		"0ms":         {IsTime: true},
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	refusals{
		"":                    {ErrSyntax, "nothing"},
		"big":                 {ErrSyntax, "begin with a number"},
		"10":                  {ErrUnclear, "10B|10pkt"},
		"10b":                 {ErrUnclear, "10B"},
		"10kb":                {ErrUnclear, "10kB|10KiB"},
		"10KB":                {ErrUnclear, "10kB|10KiB"},
		"10k":                 {ErrUnclear, "10kB|10KiB"},
		"10m":                 {ErrUnclear, "10MB|10ms"},
		"10mb":                {ErrUnclear, "10MB|10MiB"},
		"010B":                {ErrUnclear, "10B|8B"},
		"10kib":               {ErrSyntax, "10KiB"},
		"10s":                 {ErrSyntax, "ms"},
		"10ns":                {ErrSyntax, "unit"},
		"10mbit":              {ErrSyntax, "10MB|10ms"},
		"1.5B":                {ErrNotWhole, "1B|2B"},
		"1.0001kB":            {ErrNotWhole, "1000B|1001B"},
		"0.5pkt":              {ErrNotWhole, "0pkt|1pkt"},
		"0.0001us":            {ErrNotWhole, "nanoseconds"},
		"9223372037B":         {ErrRange, "9223372036B"},
		"9223372036.5B":       {ErrRange, "9223372036B"},
		"9223372037pkt":       {ErrRange, "9223372036pkt"},
		"10000000000000000ms": {ErrRange, "too long"},
	}.check(t, func(s string) error { _, err := ParseSize(s); return err })
}

func TestSizeAt(t *testing.T) {
	for _, c := range []struct {
		text string
		rate uint64
		want uint64
		kind error
	}{
		{"10ms", 1_250_000, 12_500, nil},
		{"1ms", 1999, 1, nil}, // 1.999 rounds down
		{"1ms", 999, 0, ErrRange},
		{"1ms", 0, 0, ErrRange},
		{"0ms", 1_250_000, 0, ErrRange},
		{"9223372036854ms", 1, 9_223_372_036, nil},
		{"9223372036854ms", 2, 0, ErrRange},
		{"9223372036854ms", math.MaxUint64, 0, ErrRange},
		{"96KiB", 0, 98_304, nil},
		{"0B", 5, 0, nil},
		{"7pkt", 5, 7, nil},
	} {
		size, err := ParseSize(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := size.At(c.rate)
		if got != c.want || !errors.Is(err, c.kind) {
			t.Errorf("%s at %d = %d, %v; want %d, %v", c.text, c.rate, got, err, c.want, c.kind)
		}
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "64": 64, "64k": 64_000, "1M": 1_000_000, "18446744073709551615": math.MaxUint64,
	} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	refusals{
		"":                     {ErrSyntax, "nothing"},
		"-1":                   {ErrSyntax, "sign"},
		"many":                 {ErrSyntax, "number"},
		"1.5M":                 {ErrSyntax, "decimals"},
		"1kB":                  {ErrSyntax, "plain number"},
		"0x10":                 {ErrSyntax, "unit"},
		"1K":                   {ErrUnclear, "1k|1024"},
		"1m":                   {ErrUnclear, "1M|1k"},
		"010":                  {ErrUnclear, "10|8"},
		"18446744073709551616": {ErrRange, "at most"},
		"18446744073709552k":   {ErrRange, "at most"},
	}.check(t, func(s string) error { _, err := ParseCount(s); return err })
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{FormatRate(1_250_000, false), "10 Mbit/s"},
		{FormatRate(256_000, false), "2048 kbit/s"},
		{FormatRate(125_000_000_000, false), "1 Tbit/s"},
		{FormatRate(1_234_567, false), "1234567 B/s"},
		{FormatRate(1, false), "1 B/s"},
		{FormatRate(0, false), "0 bit/s"},
		{FormatRate(math.MaxUint64, false), "18446744073709551615 B/s"},
		{FormatRate(5000, true), "5 kpps"},
		{FormatRate(0, true), "0 pps"},
		{FormatRate(1500, true), "1500 pps"},
		{FormatSize(98_304), "96 KiB"},
		{FormatSize(1500), "1500 B"},
		{FormatSize(0), "0 B"},
		{FormatSize(2_000_000_000), "2 GB"},
		{FormatSize(1_024_000), "1000 KiB"},
		{FormatBytes(999), "999 B"},
		{FormatBytes(1234), "1.23 kB"},
		{FormatBytes(12_350), "12.4 kB"},
		{FormatBytes(123_500_000), "124 MB"},
		{FormatBytes(1_005_000_000), "1.01 GB"},
		{FormatBytes(math.MaxUint64), "18,446,744 TB"},
		{FormatMeanRate(1_234_000), "9.87 Mbit/s"},
		{FormatMeanRate(100), "800 bit/s"},
		{FormatMeanRate(0), "0 bit/s"},
		{FormatMeanRate(math.MaxUint64), "18,446,744 TB/s"},
		{FormatMeanOver(4256, 69_050_775_000), "493 bit/s"},
		{FormatMeanOver(376, 1_543_706_000_000), "2 bit/s"},
		{FormatMeanOver(1_234_000, 1_000_000_000), "9.87 Mbit/s"},
		{FormatMeanOver(1, 0), "0 bit/s"},
		{FormatMeanOver(math.MaxUint64, 1_000_000_000), "18,446,744 TB/s"},
		{FormatMeanOver(math.MaxUint64, 1), "18,446,744 TB/s"},
		{FormatMeanOver(1, math.MaxUint64), "0 bit/s"},
		{FormatBits(0), "0 bit/s"},
		{FormatBits(40), "320 bit/s"},
		{FormatBits(125), "1 kbit/s"},
		{FormatBits(300), "2.4 kbit/s"},
		{FormatBits(1_234_567), "9.876536 Mbit/s"},
		{FormatBits(125_001), "1.000008 Mbit/s"},
		{FormatBits(math.MaxUint64), "18446744073709551615 B/s"},
		{FormatCount(0), "0"},
		{FormatCount(999), "999"},
		{FormatCount(1000), "1,000"},
		{FormatCount(math.MaxUint64), "18,446,744,073,709,551,615"},
		{Size{IsTime: true, Time: 10 * time.Millisecond}.String(), "10 ms"},
		{Size{IsTime: true, Time: 1500}.String(), "1.500 us"},
		{Size{Amount: 7, Packets: true}.String(), "7 pkt"},
		{Rate{1_250_000, false}.String(), "10 Mbit/s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// FuzzParse: no text makes a parser panic, what is read is in range, and what
// is printed reads back as the same quantity. A refusal is one line, fit for a terminal.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"10mbit", "2.048mbit", "00\n0", "0B", "96KiB", "1.5us", "010", "1M", "5kpps", "9223372036B", "1.2.3", "10kbps", "٣mbit"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if rate, err := ParseRate(text); err == nil {
			if rate.PerSecond > MaxRate {
				t.Fatalf("ParseRate(%q) = %d, out of range", text, rate.PerSecond)
			}
			if again, err := ParseRate(rate.String()); err != nil || again != rate {
				t.Fatalf("%q is %+v, printed %q, read back as %+v, %v", text, rate, rate, again, err)
			}
		}
		if size, err := ParseSize(text); err == nil {
			if size.Amount > MaxBurst || size.Time < 0 {
				t.Fatalf("ParseSize(%q) = %+v, out of range", text, size)
			}
			if again, err := ParseSize(size.String()); err != nil || again != size {
				t.Fatalf("%q is %+v, printed %q, read back as %+v, %v", text, size, size, again, err)
			}
		}
		_, rate := ParseRate(text)
		_, size := ParseSize(text)
		_, count := ParseCount(text)
		for _, err := range []error{rate, size, count} {
			if err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Fatalf("%q is refused with a control character: %q", text, err.Error())
			}
		}
	})
}
