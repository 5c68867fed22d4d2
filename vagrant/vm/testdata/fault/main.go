// Command fault goes wrong, in a virtual machine, in the way that its argument says.
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

func main() {
	fmt.Println("fault:", os.Args[1])
	switch os.Args[1] {
	case "well":
		return
	case "fail":
		os.Exit(1)
	case "hang":
	case "panic":
		trigger("c")
	case "kill-init": // SIGQUIT has the Go runtime end it with a trace, where SIGKILL does nothing to it
		_ = syscall.Kill(1, syscall.SIGQUIT)
	case "poweroff":
		trigger("o")
	case "claim": // what a machine that passed says, but for the word that it cannot know
		fmt.Println("\nvm: verdict : PASS: 1 steps, 1 tests")
		trigger("b")
	}
	time.Sleep(time.Hour)
}

// trigger asks the kernel for what SysRq and a key do.
func trigger(key string) { _ = os.WriteFile("/proc/sysrq-trigger", []byte(key), 0) }
