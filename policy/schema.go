package policy

import _ "embed"

// Schema is the JSON Schema of a policy file, for editors. It sees less than Parse: not what two places
// of a file say together.
//
//go:embed schema.json
var Schema []byte
