package v1

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVerificationsThatStand adds verifications, "quick-Intact" each, and requires which of them says how the backup is,
// and which was the last to read all files.
func TestVerificationsThatStand(t *testing.T) {
	t.Parallel()
	for added, want := range map[string]struct{ standing, files string }{
		"":                           {"", ""},
		"quick-Intact":               {"quick-Intact", ""},
		"files-Intact":               {"files-Intact", "files-Intact"},
		"files-Intact quick-Intact":  {"quick-Intact", "files-Intact"},
		"files-Intact quick-Damaged": {"quick-Damaged", "files-Intact"},
		"files-Damaged quick-Intact": {"files-Damaged", "files-Damaged"},
		"files-Damaged quick-Intact quick-Intact":    {"files-Damaged", "files-Damaged"},
		"files-Damaged quick-Intact files-Intact":    {"files-Intact", "files-Intact"},
		"files-Damaged quick-Intact data-Intact":     {"data-Intact", "data-Intact"},
		"files-Damaged volumes-Failed":               {"files-Damaged", "volumes-Failed"},
		"files-Intact files-Failed":                  {"files-Failed", "files-Failed"},
		"files-Failed quick-Intact":                  {"quick-Intact", ""},
		"quick-Damaged files-Failed":                 {"quick-Damaged", "files-Failed"},
		"files-Intact quick-Damaged quick-Failed":    {"quick-Damaged", ""},
		"files-Intact quick-Damaged quick-Intact":    {"quick-Intact", "files-Intact"},
		"data-Damaged files-Intact volumes-Intact":   {"data-Damaged", "volumes-Intact"},
		"data-Intact files-Damaged":                  {"files-Damaged", "files-Damaged"},
		"data-Damaged files-Intact unknown-Intact":   {"data-Damaged", "data-Damaged"},
		"files-Damaged files-Intact":                 {"files-Intact", "files-Intact"},
		"quick-Damaged quick-Failed files-Intact":    {"files-Intact", "files-Intact"},
		"volumes-Damaged files-Failed quick-Damaged": {"quick-Damaged", "volumes-Damaged"},
	} {
		var v Verification
		for word := range strings.FieldsSeq(added) {
			depth, outcome, _ := strings.Cut(word, "-")
			v.Add(&VerificationResult{Depth: VerificationDepth(depth), Outcome: VerificationOutcome(outcome)})
		}
		text := func(r *VerificationResult) string {
			if r == nil {
				return ""
			}
			return string(r.Depth) + "-" + string(r.Outcome)
		}
		require.Equal(t, want.standing, text(v.Standing()), added)
		require.Equal(t, want.files, text(v.At(VerifyFiles)), added)
	}
}
