package manifest

import (
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	manifestwriter "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

func load(
	t *testing.T, backup *velerov1.Backup, w writer, items ...*manifestwriter.Item,
) (*manifest.Manifest, manifest.Header) {
	t.Helper()
	written := plugintest.Artifacts{}
	require.NoError(t, w.Write(t.Context(), &manifestwriter.WriteInput{Backup: backup, Artifacts: written,
		Items: plugintest.Items(items...)}))
	loaded, header, err := manifest.Load(written[Artifact])
	require.NoError(t, err)
	return loaded, header
}

func TestManifestHasAllOfAnItem(t *testing.T) {
	t.Parallel()
	claim := manifest.Edge{
		Type: manifest.Reference, Strict: true, Path: "spec.volumes[0].persistentVolumeClaim.claimName",
		To: manifest.Ref{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
	}
	of := manifest.Ref{Group: "apps", Resource: "replicasets", Namespace: "shop", Name: "web"}
	loaded, header := load(t, plugintest.Backup("nightly"), writer{defaults()}, &manifestwriter.Item{
		Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u-1",
		Labels:      map[string]string{"app": "<web>"},
		Annotations: map[string]string{"kept": "yes", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
		Owners: []manifestwriter.Owner{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u-2",
			Controller: true}},
		References: []manifest.Edge{claim},
		Included:   manifest.Inclusion{By: manifest.ByAction, Plugin: "example.io/pods", Of: &of},
	})
	require.Equal(t, "nightly", header.Backup.Name)
	require.Equal(t, manifest.FormatVersion, header.FormatVersion)
	require.Equal(t, []string{"kubectl.kubernetes.io/last-applied-configuration"}, header.OmittedAnnotations)
	controller := manifest.Edge{
		Type: manifest.Controller, Strict: true, Path: "metadata.ownerReferences",
		To: manifest.Ref{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web", UID: "u-2"},
	}
	require.Equal(t, &manifest.Item{
		APIVersion: "v1", Resource: "pods", ItemKind: "Pod", Namespace: "shop", Name: "web-1", UID: "u-1",
		Labels: map[string]string{"app": "<web>"}, Annotations: map[string]string{"kept": "yes"},
		OwnerUIDs: []string{"u-2"}, Edges: []manifest.Edge{controller, claim},
		Included: manifest.Inclusion{By: manifest.ByAction, Plugin: "example.io/pods", Of: &of}, Manifest: loaded,
	}, loaded.Index["u-1"])
}

func TestItemThatIsWrittenAgainReplacesTheFirst(t *testing.T) {
	t.Parallel()
	tls := func(uid string) *manifestwriter.Item {
		return &manifestwriter.Item{Version: "v1", Resource: "secrets", Kind: "Secret", Namespace: "shop", Name: "tls",
			UID: uid}
	}
	loaded, _ := load(t, plugintest.Backup("nightly"), writer{defaults()}, tls("u-1"), tls("u-2"))
	require.Equal(t, "u-2", loaded.Find(manifest.Ref{Resource: "secrets", Namespace: "shop", Name: "tls"}).UID)
}

func TestDryRunIsMarked(t *testing.T) {
	t.Parallel()
	backup := plugintest.Backup("nightly")
	backup.Annotations = map[string]string{"cleat.dev/dry-run": "true"}
	loaded, header := load(t, backup, writer{defaults()})
	require.True(t, header.Backup.DryRun)
	require.Empty(t, loaded.Kinds)
}

func TestAbandonedBackupIsAnError(t *testing.T) {
	t.Parallel()
	gone := errors.New("the backup was given up")
	var items iter.Seq2[*manifestwriter.Item, error] = func(yield func(*manifestwriter.Item, error) bool) {
		yield(nil, gone)
	}
	written := plugintest.Artifacts{}
	err := writer{defaults()}.Write(t.Context(), &manifestwriter.WriteInput{Backup: plugintest.Backup("nightly"),
		Items: items, Artifacts: written})
	require.ErrorIs(t, err, gone)
	require.Empty(t, written[Artifact].String())
}
