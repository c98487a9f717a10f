package operations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_PostItems changes, adds and deletes post-operation items. The backup holds their state after
// the end of the operations.
func TestAcceptOperations_PostItems(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"cleat.dev/file", "cleat.dev/s3"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, provider)
			w := s.Work()
			s.Serve(w.Args...)
			s.Available()
			shop := s.Workload(3)
			secret := func(name, value string) *corev1.Secret {
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name},
					StringData: map[string]string{"value": value}}
			}
			for _, name := range []string{"changed", "kept", "removed"} {
				require.NoError(t, s.Client.Create(t.Context(), secret(name, "before")))
			}
			for item, after := range map[string]string{"a": "changed", "b": "added", "c": "removed"} {
				s.Item(shop, item, "keyed", "length", "held", "after", after)
			}
			s.Item(shop, "d", "keyless", "length", "held", "after", "changed")
			s.BeginBackupOf("b", shop)
			s.AwaitBackup("b", velerov1.BackupPhaseWaitingForPluginOperations)
			require.NoError(t, s.Client.Update(t.Context(), secret("changed", "after")))
			require.NoError(t, s.Client.Update(t.Context(), secret("kept", "after")))
			require.NoError(t, s.Client.Create(t.Context(), secret("added", "after")))
			require.NoError(t, s.Client.Delete(t.Context(), secret("removed", "")))
			w.Finish()

			b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
			s.RequireWhole(b)
			require.Equal(t, 1, b.Status.Warnings, "one item does not exist any more")
			const old, now = "YmVmb3Jl", "YWZ0ZXI=" // before, after
			for name, value := range map[string]string{"changed": now, "added": now, "kept": old, "removed": old} {
				require.Contains(t, string(s.Archived("b", "resources/secrets/namespaces/"+shop+"/"+name+".json")), value, name)
				require.Contains(t, string(s.Archived("b", "resources/secrets/v1-preferredversion/namespaces/"+shop+"/"+name+
					".json")), value, name)
			}
			list := site.Gzipped[map[string][]string](s, "backups/b/b-resource-list.json.gz")
			require.Contains(t, list["v1/Secret"], shop+"/added")
			require.Contains(t, string(s.Archived("b", "resources/configmaps/namespaces/"+shop+"/a.json")), "worker",
				"all else is as it was")
			s.AwaitNoJournals()
		})
	}
}
