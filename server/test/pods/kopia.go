package pods

import (
	"regexp"
	"strings"
)

// sameFile is the field of a line of "tree list" that names the other path of a hard link.
var sameFile = regexp.MustCompile(`"Same":"[^}]*"`)

// KeptByKopia returns what "tree list" prints of a directory after its restore by kopia, which has no FIFOs, no hard
// links and no names that are not UTF-8. Each of them is a warning of the mover.
func KeptByKopia(list string) string {
	var kept strings.Builder
	for line := range strings.Lines(list) {
		if strings.Contains(line, `"Mode":"p`) {
			continue
		}
		line = sameFile.ReplaceAllLiteralString(line, `"Same":""`)
		kept.WriteString(strings.ReplaceAll(line, `\\xff\\xfe`, `\\\\xff\\\\xfe`))
	}
	return kept.String()
}
