package pods

import (
	"regexp"
	"strings"
)

// sameFile is the field of a line of "tree list" that names the other path of a hard link.
var sameFile = regexp.MustCompile(`"Same":"[^}]*"`)

// KeptByKopia returns what "tree list" prints of a directory after its restore by kopia, which has no FIFOs and no hard
// links. Each of them is a warning of the mover.
func KeptByKopia(list string) string {
	var kept strings.Builder
	for line := range strings.Lines(list) {
		if strings.Contains(line, `"Mode":"p`) {
			continue
		}
		kept.WriteString(sameFile.ReplaceAllLiteralString(line, `"Same":""`))
	}
	return kept.String()
}
