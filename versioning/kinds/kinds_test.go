package kinds_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
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

func TestEveryVersionIsListedOnce(t *testing.T) {
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

// none returns no implementation: none is called here.
func none[H any](context.Context, *framework.Setup) (H, error) {
	var nothing H
	return nothing, errors.New("nothing is constructed here")
}

// registrations returns a registration of each kind and version that authors can register, by its name on the wire.
func registrations() map[string]framework.Registration {
	const name = "example.io/any"
	byWire := map[string]framework.Registration{}
	for _, registration := range []framework.Registration{
		biav1.Register(name, none), biav2.Register(name, none), abiav1.Register(name, none),
		riav1.Register(name, none), riav2.Register(name, none), ariav1.Register(name, none),
		diav1.Register(name, none), ibav1.Register(name, none), osv1.Register(name, none),
		vsv1.Register(name, none), qav1.Register(name, none), lsv1.Register(name, none), mwv1.Register(name, none),
		dmv1.Register(name, none),
	} {
		byWire[registration.Kind()] = registration
	}
	return byWire
}

func TestServerKnowsEveryKindThatAuthorsCanRegister(t *testing.T) {
	t.Parallel()
	registered := registrations()
	require.Len(t, registered, 14)
	for wire := range registered {
		known, ok := kinds.Lookup(wire)
		require.True(t, ok, wire)
		_, version := hostapi.SplitWireKind(wire)
		require.Equal(t, version, known.Number, wire)
	}
}

// services returns the methods of gRPC services, by their full names.
type services map[string]bool

func (s services) RegisterService(desc *grpc.ServiceDesc, _ any) {
	for _, method := range desc.Methods {
		s["/"+desc.ServiceName+"/"+method.MethodName] = true
	}
	for _, stream := range desc.Streams {
		s["/"+desc.ServiceName+"/"+stream.StreamName] = true
	}
}

// servedByVersion returns the methods that a plugin serves at each version, by its name on the wire, without those that
// describe it.
func servedByVersion(t *testing.T) map[string]services {
	t.Helper()
	served := map[string]services{}
	for wire, registration := range registrations() {
		methods := services{}
		require.NoError(t, hostapi.RegisterAll(methods, hostapi.Environment{Log: hclog.NewNullLogger()}, registration))
		maps.DeleteFunc(methods, func(method string, _ bool) bool { return strings.Contains(method, ".Plugin") })
		served[wire] = methods
	}
	return served
}

func TestVersionIsProbedByItsOwnMethod(t *testing.T) {
	t.Parallel()
	for _, known := range kinds.All() {
		for wire, methods := range servedByVersion(t) {
			require.Equal(t, wire == known.Wire, methods[known.Probe], "%s of %s, at %s", known.Probe, known.Wire, wire)
		}
	}
}

func TestEveryMethodIsDeclaredByItsVersion(t *testing.T) {
	t.Parallel()
	served := servedByVersion(t)
	for _, known := range kinds.All() {
		require.ElementsMatch(t, slices.Collect(maps.Keys(served[known.Wire])), slices.Collect(maps.Keys(known.Calls)),
			known.Wire)
	}
}

func TestFacadeSendsTheNameItIsBoundTo(t *testing.T) {
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
	for _, version := range kinds.DataMover().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
	for _, version := range kinds.ObjectStore().Versions {
		require.Equal(t, "a.b/c", version.Bind(nil, "a.b/c").Name())
	}
}
