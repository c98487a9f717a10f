package conformance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// broken are the rules that a report says are not kept, as "kind name: rule".
func broken(report *conformance.Report, outcomes ...conformance.Outcome) map[string]string {
	found := map[string]string{}
	for _, plugin := range report.Plugins {
		for _, result := range plugin.Results {
			for _, outcome := range outcomes {
				if result.Outcome == outcome {
					found[plugin.String()+": "+result.Rule] = result.Seen
				}
			}
		}
	}
	return found
}

func keys(found map[string]string) []string {
	all := make([]string, 0, len(found))
	for key := range found {
		all = append(all, key)
	}
	return all
}

func TestAcceptKinds_Conformance(t *testing.T) {
	t.Parallel()
	t.Run("good plugins", func(t *testing.T) {
		t.Parallel()
		for name, test := range map[string]struct {
			binary string
			broken []string // on purpose
		}{
			"the first plugin": {"first-plugin", nil},
			"all kinds of an older plugin, one of which panics and one of which prints": {"plugin", []string{
				"Process: stdout-quiet", "BackupItemAction example.io/panic: action-item",
			}},
			"all other kinds, which know every operation": {"kinds", []string{
				"BackupItemActionV2 example.io/mover: operation-unknown", "RestoreItemActionV2 example.io/fetcher: operation-unknown",
				"AsyncBackupItemAction example.io/copier: operation-unknown", "AsyncRestoreItemAction example.io/copier: operation-unknown",
			}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				report, err := conformance.Run(t.Context(), conformance.Binary(program(t, test.binary)),
					conformance.WithOperationWait(100*time.Millisecond))
				require.NoError(t, err)
				found := broken(report, conformance.Failed, conformance.Warned)
				require.ElementsMatch(t, test.broken, keys(found), "%v", found)
			})
		}
	})
}
