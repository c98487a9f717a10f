package operations_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// isRecorded reports whether a journal has an operation of an item.
func isRecorded(ctx context.Context, s *site.Site, item string) bool {
	return slices.ContainsFunc(s.Journals(ctx), func(page corev1.ConfigMap) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(page.Data)),
			func(lines string) bool { return strings.Contains(lines, `"`+item+`"`) })
	})
}

// TestAcceptOperations_Followed follows operations of both kinds of actions, with and without keys, of a backup and of
// a restore.
func TestAcceptOperations_Followed(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	w := s.Work()
	s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(3)
	s.Item(shop, "keyed-a", "keyed")
	s.Item(shop, "keyed-b", "keyed", "length", "2s")
	s.Item(shop, "keyless", "keyless")
	s.Item(shop, "nothing", "keyed", "as", "no id")
	s.BeginBackupOf("b", shop)

	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, [3]int{3, 3, 0}, [3]int{b.Status.BackupItemOperationsAttempted,
		b.Status.BackupItemOperationsCompleted, b.Status.BackupItemOperationsFailed})
	s.RequireWhole(b)
	want := map[string]int{}
	for _, item := range []string{"keyed-a", "keyed-b", "keyless"} {
		want["begun backup/"+shop+"/"+item], want["ended backup/"+shop+"/"+item] = 1, 1
	}
	require.Equal(t, want, w.Notes())

	s.RestoreTo("r", "b", shop, shop+"-copy")
	r := s.AwaitRestore("r", velerov1.RestorePhaseCompleted)
	require.Equal(t, [3]int{3, 3, 0}, [3]int{r.Status.RestoreItemOperationsAttempted,
		r.Status.RestoreItemOperationsCompleted, r.Status.RestoreItemOperationsFailed})
	notes := w.Notes()
	require.Len(t, notes, 12)
	for what, n := range notes {
		require.Equal(t, 1, n, what)
	}
	require.True(t, slices.Contains(s.Files("restores/r"), "restore-r-itemoperations.json.gz"))
	s.AwaitNoJournals()
}
