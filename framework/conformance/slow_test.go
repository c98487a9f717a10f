package conformance_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// maxChain is the largest number of calls that a test may make one after the other. They are some 200 on an idle
// machine, which take seven minutes at two seconds per call, and 304 were seen on a busy one under the race detector.
const maxChain = 450

// TestSlowPluginIsTestedInTime proves that a correct plugin whose calls take two seconds passes in ten minutes. The
// calls of the test are shorter; what counts is how many of them are made one after the other.
func TestSlowPluginIsTestedInTime(t *testing.T) {
	t.Parallel()
	const slow = 200 * time.Millisecond // much longer than a busy machine delays a call
	const faster = 10                   // than the calls of the slow plugin
	for _, kinds := range []string{
		"AsyncBackupItemAction", "ObjectStore",
		"BackupItemAction,BackupItemActionV2,RestoreItemActionV2,DeleteItemAction,AsyncBackupItemAction,QueueAdmission,LoadSoothing,ManifestWriter",
	} {
		t.Run(kinds, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o700))
			calls := filepath.Join(dir, "calls")
			options := []conformance.Option{
				conformance.WithSlowCall(time.Second / faster), conformance.WithOperationWait(10 * time.Second / faster),
				conformance.WithLeakTime(2 * time.Minute / faster), conformance.WithTimeout(patience),
			}
			if kinds == "ObjectStore" {
				options = append(options, conformance.WithConfig("", map[string]string{"path": dir, "bucket": "bucket"}))
			}
			binary := conformance.Binary(program(t, "defects"), "--kind", kinds, "--slow", slow.String(), "--calls", calls)
			report, err := conformance.Run(t.Context(), binary, options...)
			require.NoError(t, err)
			require.Empty(t, broken(report, conformance.Failed, conformance.Warned))
			chain := longestChain(t, calls)
			t.Logf("%d calls one after the other; %s", chain, report.Summary())
			require.LessOrEqual(t, chain, maxChain)
		})
	}
}

// longestChain returns the largest number of calls of which none began before the end of another. Each line of the file
// has the start and the end of a call.
func longestChain(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	type call struct{ began, ended int64 }
	var all []call
	for line := range strings.Lines(string(raw)) {
		var one call
		_, err := fmt.Sscan(line, &one.began, &one.ended)
		require.NoError(t, err)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b call) int { return cmp.Compare(a.ended, b.ended) })
	count, end := 0, int64(0)
	for _, one := range all {
		if one.began >= end {
			count++
			end = one.ended
		}
	}
	return count
}
