package cli

import (
	"cmp"
	"fmt"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// phaseOr is a phase, with New for the empty one.
func phaseOr(phase string) string {
	return cmp.Or(phase, string(velerov1.BackupPhaseNew))
}

// counted is a number of things, e.g. "3 items".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// joined puts texts on one line.
func joined(texts []string) string { return strings.Join(texts, "; ") }
