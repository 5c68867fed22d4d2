package steps

import "fmt"

// How a virtual machine ends: the code that its first process writes to QEMU's isa-debug-exit device at
// ExitPort. QEMU then ends with status 2 × code + 1, which no other end of it gives: 33 or 35.
const (
	ExitPort   = 0xf4
	ExitPassed = 16
	ExitFailed = 17
)

// Verdict returns the line that ends a machine's console, for the word that this boot was given: no other
// boot's output, and nothing that a test prints, can be taken for it.
func Verdict(word, verdict string) string {
	return fmt.Sprintf("%sverdict %s: %s", Mark, word, verdict)
}

// Passed is the verdict of a list that ran whole.
func Passed(steps, tests int) string { return fmt.Sprintf("PASS: %d steps, %d tests", steps, tests) }
