package itemactions_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/plugins/itemactions"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/deleteitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// serve serves all actions on a gRPC connection, as for a host.
func serve(t *testing.T, opts ...itemactions.Option) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	require.NoError(t, hostapi.RegisterAll(server, hostapi.Environment{Log: hclog.NewNullLogger()},
		itemactions.Register(opts...)...))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:itemactions", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// TestEveryActionOfVeleroIsRegisteredOrBelongsToVolumeData is the table of Velero's built-in item actions. Those that
// move the data of volumes are not registered: the server does not yet, and says so per volume.
func TestEveryActionOfVeleroIsRegisteredOrBelongsToVolumeData(t *testing.T) {
	t.Parallel()
	const volumeData = "data of volumes"
	table := []struct{ kind, name, missing string }{
		{"AsyncBackupItemAction", "cleat.dev/pod-volume-backup", ""},   // the server itself, in Velero
		{"AsyncRestoreItemAction", "velero.io/pod-volume-restore", ""}, // a RestoreItemAction in Velero
		{"BackupItemAction", "cleat.dev/dataupload", ""},               // writes them as Velero's are
		{"BackupItemAction", "velero.io/crd-remap-version", ""},
		{"BackupItemAction", "velero.io/pod", ""},
		{"BackupItemAction", "velero.io/pv", ""},
		{"BackupItemAction", "velero.io/service-account", ""},
		{"BackupItemActionV2", "velero.io/csi-pvc-backupper", ""},
		{"BackupItemActionV2", "velero.io/csi-volumesnapshot-backupper", ""},
		{"BackupItemActionV2", "velero.io/csi-volumesnapshotclass-backupper", ""},
		{"BackupItemActionV2", "velero.io/csi-volumesnapshotcontent-backupper", ""},
		{"ItemBlockAction", "velero.io/pod", ""},
		{"ItemBlockAction", "velero.io/pvc", ""},
		{"ItemBlockAction", "velero.io/service-account", ""},
		{"RestoreItemAction", "cleat.dev/mapped-references", ""}, // Velero maps subjects of role bindings only
		{"RestoreItemAction", "velero.io/add-pvc-from-pod", ""},
		{"RestoreItemAction", "velero.io/admission-webhook-configuration", ""},
		{"RestoreItemAction", "velero.io/apiservice", ""},
		{"RestoreItemAction", "velero.io/change-image-name", ""},
		{"RestoreItemAction", "velero.io/change-storage-class", ""},
		{"RestoreItemAction", "velero.io/cluster-role-bindings", ""},
		{"RestoreItemAction", "velero.io/crd-preserve-fields", ""},
		{"RestoreItemAction", "velero.io/dataupload", ""},
		{"RestoreItemAction", "velero.io/init-restore-hook", ""},
		{"RestoreItemAction", "velero.io/job", ""},
		{"RestoreItemAction", "velero.io/pod", ""},
		{"RestoreItemAction", "velero.io/pvc", ""},
		{"RestoreItemAction", "velero.io/role-bindings", ""},
		{"RestoreItemAction", "velero.io/secret", ""},
		{"RestoreItemAction", "velero.io/service", ""},
		{"RestoreItemAction", "velero.io/service-account", ""},
		{"RestoreItemActionV2", "velero.io/csi-pvc-restorer", ""},
		{"RestoreItemActionV2", "velero.io/csi-volumesnapshot-restorer", ""},
		{"RestoreItemActionV2", "velero.io/csi-volumesnapshotclass-restorer", ""},
		{"RestoreItemActionV2", "velero.io/csi-volumesnapshotcontent-restorer", ""},
		{"DeleteItemAction", "velero.io/csi-volumesnapshotcontent-delete", ""},
		{"DeleteItemAction", "velero.io/dataupload-delete", volumeData},
	}
	want, names := map[string][]string{}, map[string][]string{}
	for _, row := range table {
		if row.missing == "" {
			want[row.kind] = append(want[row.kind], row.name)
		}
	}
	for _, registration := range itemactions.Register() {
		names[registration.Kind()] = append(names[registration.Kind()], registration.Name())
	}
	require.Equal(t, want, names)
	for _, sorted := range names {
		require.True(t, slices.IsSorted(sorted), "a plugin's list is sorted, so another order here would not be the real one")
	}
}

// No action may apply to all resources: each item that an action receives has to be decoded.
func TestActionsNameTheirResourcesWithoutCluster(t *testing.T) {
	t.Parallel()
	conn := serve(t, itemactions.WithConfig(func() (*rest.Config, error) {
		return nil, errors.New("there is no cluster")
	}))
	for _, registration := range itemactions.Register() {
		var selector framework.ResourceSelector
		var err error
		switch registration.Kind() {
		case "AsyncBackupItemAction":
			selector, err = backupitemaction.AsyncV1().Bind(conn, registration.Name()).AppliesTo(t.Context())
		case "AsyncRestoreItemAction":
			selector, err = restoreitemaction.AsyncV1().Bind(conn, registration.Name()).AppliesTo(t.Context())
		case "BackupItemActionV2":
			selector, err = backupitemaction.V2().Bind(conn, registration.Name()).AppliesTo(t.Context())
		case "RestoreItemActionV2":
			selector, err = restoreitemaction.V2().Bind(conn, registration.Name()).AppliesTo(t.Context())
		case "DeleteItemAction":
			selector, err = deleteitemaction.V1().Bind(conn, registration.Name()).AppliesTo(t.Context())
		case "BackupItemAction":
			selector, err = backupitemaction.V1().Bind(conn, registration.Name()).AppliesTo(t.Context())
		case "ItemBlockAction":
			selector, err = itemblockaction.V1().Bind(conn, registration.Name()).AppliesTo(t.Context())
		default:
			selector, err = restoreitemaction.V1().Bind(conn, registration.Name()).AppliesTo(t.Context())
		}
		require.NoError(t, err)
		require.NotEmpty(t, selector.IncludedResources, registration.Name())
	}
}

func TestErrorSaysThatThereIsNoCluster(t *testing.T) {
	t.Parallel()
	conn := serve(t, itemactions.WithConfig(func() (*rest.Config, error) { return nil, errors.New("no kubeconfig here") }))
	_, err := backupitemaction.V1().Bind(conn, "velero.io/service-account").Execute(t.Context(),
		[]byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web","namespace":"shop"}}`), []byte(`{}`))
	require.EqualError(t, err, "BackupItemAction(velero.io/service-account): which cluster roles a service account has: "+
		"how to reach the cluster: no kubeconfig here")
	item := []byte(`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"web-token-x7k2p","namespace":"shop"}}`)
	_, err = restoreitemaction.V1().Bind(conn, "velero.io/secret").Execute(t.Context(), restoreitemaction.Input{
		Item: item, ItemFromBackup: item, Restore: []byte(`{}`),
	})
	require.EqualError(t, err, "RestoreItemAction(velero.io/secret): whether service account shop/web exists: "+
		"how to reach the cluster: no kubeconfig here")
}

// An item that an action does not change keeps its bytes, whatever they are.
func TestUnchangedItemKeepsItsBytes(t *testing.T) {
	t.Parallel()
	conn := serve(t)
	item := []byte(`{"kind":"Secret","type":"Opaque" , "apiVersion":"v1","metadata":{"name":"web","namespace":"shop"},"data":{"a":"PD4m"},"x":1.50}`)
	result, err := restoreitemaction.V1().Bind(conn, "velero.io/secret").Execute(t.Context(), restoreitemaction.Input{
		Item: item, ItemFromBackup: item, Restore: []byte(`{}`),
	})
	require.NoError(t, err)
	require.Equal(t, string(item), string(result.Item))
}
