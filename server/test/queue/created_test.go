package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptQueue_CreatedAsQueued creates a backup with the phase and the position that the server would write, as a
// copy of a waiting one has them: it runs, and another one after it.
func TestAcceptQueue_CreatedAsQueued(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	namespace := s.Workload(1)
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "copy"},
		Spec:       velerov1.BackupSpec{IncludedNamespaces: []string{namespace}},
		Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseQueued, QueuePosition: 1}}))
	s.Serve("--concurrent-backups", "1")
	s.Available()
	s.AwaitCompleted([]string{"copy"})
	s.Must("backup", "create", "after", "--include-namespaces", namespace)
	s.AwaitCompleted([]string{"after"})
}
