package restore

import "testing"

// FuzzReplies reads any replies of an API server.
func FuzzReplies(f *testing.F) {
	for _, text := range []string{"", "null", "[null]", `{"metadata":{"name":"a"},"status":{"conditions":[null]}}`,
		`{"metadata":null}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(_ *testing.T, body []byte) {
		_, _ = decodeWritten(body)
		_, _, _ = checkDefinition(body)
		_, _, _ = checkAPIService(body)
		_, _, _ = checkClaim(body)
		_, _ = decodeExisting(body)
	})
}
