package serverreport_test

import (
	"testing"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// FuzzReports decodes any report of a server.
func FuzzReports(f *testing.F) {
	for _, text := range []string{"", "null", "[null]", `{"operations":[null],"policies":[null],"blockers":[null]}`,
		`{"operations":null}`} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = serverreport.DecodeBlockers(text)
		_, _ = serverreport.DecodeOperations(text)
		_, _ = serverreport.DecodePolicies(text)
		_, _ = serverreport.DecodeRestoreQuestion(text)
		_, _ = serverreport.DecodeRestoring(text)
	})
}
