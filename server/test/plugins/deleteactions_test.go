package plugins_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
	"github.com/cleat-dev/cleat/server/test/stockplugins"
)

// testDeleteItemActionsAreCalled deletes backups with two plugins, one of them a stock plugin. The plugins get the
// items in the archive to which they apply, before the files of the backup are deleted; a plugin that fails for an
// item keeps the files.
func testDeleteItemActionsAreCalled(t *testing.T) {
	s := site.New(t, "cleat.dev/s3")
	notes := s.WatchItems("0s")
	stock, err := stockplugins.Build("2022", notes.Plugins)
	require.NoError(t, err)
	server := s.Serve(notes.Args...)
	s.Available()

	// The stock plugin applies to app=web in the namespace shop, and refuses items that contain "stays".
	for name, data := range map[string]map[string]string{"a": nil, "b": {"this": "stays"}, "c": {"this": "stays"}} {
		item := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: data}
		if name != "c" {
			item.Labels = map[string]string{"app": "web"}
		}
		require.NoError(t, s.Client.Create(t.Context(), item))
	}
	for _, name := range []string{"nightly", "hollow"} {
		s.BeginBackupOf(name, "shop")
		s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
	}

	whole := s.Files("backups/nightly")
	request := s.RequestDeletion("nightly")
	s.Eventually("the deletion has failed", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(request), request)
		return request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, err
	})
	require.Equal(t, []string{
		"configmaps/shop/b: DeleteItemAction(velero.io/stock-2022-delete): it has to stay",
		"the files of the backup were kept; remove the cause, or the plugin, and delete the backup again",
	}, request.Status.Errors)
	require.Equal(t, whole, s.Files("backups/nightly"))
	server.AwaitLog("stock delete action runs")
	const configMaps = 4 // including kube-root-ca.crt
	require.Equal(t, configMaps, notes.Deleted("nightly"), "the failure does not keep other items from their calls")

	// Without the plugin, the backup can be deleted.
	require.NoError(t, os.Remove(stock))
	s.Eventually("the plugin is gone", func(context.Context) (bool, error) {
		_, _, err := s.Run("plugin", "info", "velero.io/stock-2022-delete")
		return err != nil, nil
	})
	s.RequestDeletion("nightly")
	s.Eventually("the backup is deleted", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("nightly"), &velerov1.Backup{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.Empty(t, s.Files("backups/nightly"))
	require.Equal(t, 2*configMaps, notes.Deleted("nightly"), "a repeated deletion calls the actions again")

	// A backup without an archive has no items.
	require.NoError(t, os.Remove(filepath.Join(s.BucketDir, "backups", "hollow", "hollow.tar.gz")))
	s.BeginDeletion("hollow")
	s.CheckDeleted("hollow")
	require.Zero(t, notes.Deleted("hollow"))
}
