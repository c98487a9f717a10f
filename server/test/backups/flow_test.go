package backups_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

func TestBackupAndRestoreFromCommandLine(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"cleat.dev/file", "cleat.dev/s3"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, provider)
			server := s.Serve()
			s.Available()
			shop := s.Workload(20)

			out, progress, err := s.Run("backup", "create", "first", "--include-namespaces", shop, "--wait")
			require.NoError(t, err, progress)
			require.Contains(t, out, `Backup request "first" submitted successfully.`)
			require.Contains(t, out, "Backup completed with status: Completed")
			require.Contains(t, progress, "backup first: Completed\n")
			require.Equal(t, []string{
				"first-checksums.json", "first-itemoperations.json.gz", "first-items.sha256.gz", "first-logs.gz",
				"first-manifest.json.gz", "first-podvolumebackups.json.gz",
				"first-resource-list.json.gz",
				"first-results.gz", "first-volumeinfo.json.gz", "first-volumesnapshots.json.gz", "first.tar.gz",
				"velero-backup.json",
			}, s.Files("backups/first"))

			table := s.Must("backup", "get")
			require.Regexp(t, `(?m)^first +Completed +0 +0 +\d{4}-.* +29d +default +<none>$`, table)
			require.Contains(t, s.Must("backup", "describe", "first", "--details"), "- "+shop+"/item-a\n")
			require.Contains(t, s.Must("backup", "logs", "first"), `msg="backup started" backup=`+s.Namespace+`/first`)
			require.Contains(t, s.Must("backup", "get", "first", "-o", "yaml"), "phase: Completed")

			require.NoError(t, s.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}))
			restoredTo := shop + "-copy"
			out, progress, err = s.Run("restore", "create", "back", "--from-backup", "first", "--namespace-mappings",
				shop+":"+restoredTo, "--wait")
			require.NoError(t, err, "%s%s", out, progress)
			require.Contains(t, out, "Restore completed with status: Completed")
			var list corev1.ConfigMapList
			require.NoError(t, s.Client.List(t.Context(), &list, client.InNamespace(restoredTo),
				client.MatchingLabels{"velero.io/restore-name": "back"}))
			names := make([]string, 0, len(list.Items))
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			require.Contains(t, names, "item-a")
			require.Contains(t, names, "item-t")
			require.Regexp(t, `(?m)^back +first +Completed `, s.Must("restore", "get"))
			require.Contains(t, s.Must("restore", "describe", "back", "--details"), "- "+restoredTo+"/item-a(created)\n")
			require.Contains(t, s.Must("restore", "logs", "back"), `msg="restore started"`)
			require.Equal(t, []string{
				"back-volumeinfo.json.gz", "restore-back-itemoperations.json.gz", "restore-back-items.json.gz",
				"restore-back-logs.gz", "restore-back-resource-list.json.gz", "restore-back-results.gz",
			}, s.Files("restores/back"))
			own := s.Must("version", "--client-only") // depends on the build
			require.Equal(t, own+strings.Replace(own, "Client", "Server", 1), s.Must("version", "--timeout", "2m"))

			out = s.Must("backup", "delete", "first", "--confirm", "--wait")
			require.Contains(t, out, `Backup "first" deleted.`)
			require.Empty(t, s.Files("backups/first"))
			require.Empty(t, s.Files("restores/back"))
			var restores velerov1.RestoreList
			require.NoError(t, s.Client.List(t.Context(), &restores, client.InNamespace(s.Namespace)))
			require.Empty(t, restores.Items)
			require.NoError(t, server.Stop())
		})
	}
}
