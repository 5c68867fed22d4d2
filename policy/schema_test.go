package policy

import "testing"

func inSchema(t *testing.T, text string, valid bool) { t.Helper() }
