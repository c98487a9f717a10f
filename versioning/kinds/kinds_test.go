package kinds_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

func TestEveryVersionHasOnePlace(t *testing.T) {
	t.Parallel()
	type version struct {
		kind   string
		number int
	}
	seen := map[version]string{}
	for _, known := range kinds.All() {
		at := version{known.Kind, known.Number}
		require.Empty(t, seen[at], "%s is there twice", known.Wire)
		require.Positive(t, known.Number)
		seen[at] = known.Wire
		found, ok := kinds.Lookup(known.Wire)
		require.True(t, ok)
		require.Equal(t, known, found, "a name on the wire means one version")
	}
	_, ok := kinds.Lookup("PluginLister")
	require.False(t, ok)
}

func TestTheServerKnowsEveryKindThatAuthorsCanRegister(t *testing.T) {
	t.Parallel()
	for wire, version := range map[string]int{
		biav1.Kind().Wire: 1, biav2.Kind().Wire: 2, riav1.Kind().Wire: 1, riav2.Kind().Wire: 2, osv1.Kind().Wire: 1,
		diav1.Kind().Wire: 1, ibav1.Kind().Wire: 1, vsv1.Kind().Wire: 1,
		abiav1.Kind().Wire: 1, ariav1.Kind().Wire: 1, mwv1.Kind().Wire: 1, lsv1.Kind().Wire: 1, qav1.Kind().Wire: 1,
	} {
		known, ok := kinds.Lookup(wire)
		require.True(t, ok, wire)
		require.Equal(t, version, known.Number, wire)
	}
}

// services are the methods of gRPC services, by their full names.
type services map[string]bool

func (s services) RegisterService(desc *grpc.ServiceDesc, _ any) {
	for _, method := range desc.Methods {
		s["/"+desc.ServiceName+"/"+method.MethodName] = true
	}
	for _, stream := range desc.Streams {
		s["/"+desc.ServiceName+"/"+stream.StreamName] = true
	}
}

// served are the methods that a plugin serves which has one version of a kind.
func served[H any](kind framework.Kind[H]) services {
	methods := services{}
	kind.Bind(methods, nil)
	return methods
}

// servedByVersion returns what a plugin serves at each version, by its name on the wire.
func servedByVersion() map[string]services {
	return map[string]services{
		biav1.Kind().Wire: served(biav1.Kind()), biav2.Kind().Wire: served(biav2.Kind()), abiav1.Kind().Wire: served(abiav1.Kind()),
		riav1.Kind().Wire: served(riav1.Kind()), riav2.Kind().Wire: served(riav2.Kind()), ariav1.Kind().Wire: served(ariav1.Kind()),
		diav1.Kind().Wire: served(diav1.Kind()), ibav1.Kind().Wire: served(ibav1.Kind()), osv1.Kind().Wire: served(osv1.Kind()),
		vsv1.Kind().Wire: served(vsv1.Kind()), qav1.Kind().Wire: served(qav1.Kind()), lsv1.Kind().Wire: served(lsv1.Kind()),
		mwv1.Kind().Wire: served(mwv1.Kind()),
	}
}

func TestAVersionIsProbedByAMethodOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, known := range kinds.All() {
		for wire, methods := range servedByVersion() {
			require.Equal(t, wire == known.Wire, methods[known.Probe], "%s of %s, at %s", known.Probe, known.Wire, wire)
		}
	}
}

func TestEveryMethodIsDeclaredByItsVersion(t *testing.T) {
	t.Parallel()
	served := servedByVersion()
	for _, known := range kinds.All() {
		require.ElementsMatch(t, slices.Collect(maps.Keys(served[known.Wire])), slices.Collect(maps.Keys(known.Calls)), known.Wire)
	}
}

func TestAFacadeSpeaksForTheNameItIsBoundTo(t *testing.T) {
	t.Parallel()
	for _, version := range kinds.BackupItemAction().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.AsyncBackupItemAction().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.RestoreItemAction().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.AsyncRestoreItemAction().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.DeleteItemAction().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.ItemBlockAction().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.VolumeSnapshotter().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.QueueAdmission().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.LoadSoothing().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.ManifestWriter().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.ObjectStore().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
}
