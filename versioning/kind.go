package versioning

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Kind is one kind of plugin with all its versions on the wire. H is its hub.
type Kind[H any] struct {
	// Name is the kind without its version, "BackupItemAction".
	Name string
	// Late kinds run after all others on the same item, in the order of their names.
	Late bool
	// Policy kinds decide something for the server. The configuration names the plugin and its deadline.
	Policy bool
	// Configured kinds get their configuration by PluginInfo's Configure, because their calls carry none.
	Configured bool
	// Provider is set for kinds whose processes serve one location each, because their plugins are configured once per
	// process. It is the word of errors for the name in a location: "object store provider". Processes of other kinds are
	// shared by all callers.
	Provider string
	// Versions are all versions that the server speaks, in any order.
	Versions []Version[H]
}

// NewKind returns the kind that has versions, the first of which sets its name, and whether it is a policy or
// configured.
func NewKind[H any](versions ...Version[H]) Kind[H] {
	name, _ := hostapi.SplitWireKind(versions[0].Wire)
	return Kind[H]{
		Name: name, Policy: versions[0].policy, Configured: versions[0].configured, Versions: versions,
	}
}

// Version is one version of a kind on the wire.
type Version[H any] struct {
	// Wire is the version's name in a plugin's list, "BackupItemActionV2".
	Wire string
	// Number orders the versions of a kind; the highest is the newest.
	Number int
	// Bind returns the facade: the hub over the plugin listed as name in the process that conn reaches. It makes
	// no call.
	Bind func(conn grpc.ClientConnInterface, name string) H
	// Probe is a unary or streaming method of the version, "/generated.BackupItemAction/AppliesTo", that may be called
	// with an empty request to see whether the version is served at all. Empty when there is none.
	Probe string
	// Calls declares the methods of the version. A method that is not declared gets the longest deadline and is never
	// repeated.
	Calls Calls
	// Deprecated names the replacement if the version is going to be removed; empty otherwise.
	Deprecated string

	policy, configured bool // as in Kind
}

// NewVersion returns the version that framework describes as kind. bind returns the facade of a plugin behind conn, and
// calls declares the methods.
func NewVersion[A, H any](
	kind hostapi.Kind[A], bind func(p Plugin, conn grpc.ClientConnInterface) H, calls Calls,
) Version[H] {
	name, number := hostapi.SplitWireKind(kind.Wire)
	return Version[H]{
		Wire: kind.Wire, Number: number, Probe: kind.Probe, Calls: calls,
		Bind: func(conn grpc.ClientConnInterface, plugin string) H { return bind(NewPlugin(name, plugin), conn) },

		policy: kind.Policy, configured: !kind.Policy && !kind.HasInit,
	}
}

// Deprecate returns the version with Deprecated set to instead.
func (v Version[H]) Deprecate(instead string) Version[H] {
	v.Deprecated = instead
	return v
}

// Version returns the version with the name wire in a plugin's list, or false if there is none.
func (k Kind[H]) Version(wire string) (Version[H], bool) {
	for _, version := range k.Versions {
		if version.Wire == wire {
			return version, true
		}
	}
	return Version[H]{}, false
}

// WireKind describes one version of a kind without its hub. Its fields are the same as in Kind and Version.
type WireKind struct {
	Kind       string // whatever the version
	Late       bool
	Policy     bool
	Configured bool
	Provider   string
	Wire       string // in a plugin's list
	Number     int
	Probe      string
	Calls      Calls
	Deprecated string
}

// WireKinds returns the versions of the kind, in their order.
func (k Kind[H]) WireKinds() []WireKind {
	wireKinds := make([]WireKind, 0, len(k.Versions))
	for _, v := range k.Versions {
		wireKinds = append(wireKinds, WireKind{
			Kind: k.Name, Late: k.Late, Policy: k.Policy, Configured: k.Configured, Provider: k.Provider,
			Wire: v.Wire, Number: v.Number, Probe: v.Probe, Calls: v.Calls, Deprecated: v.Deprecated,
		})
	}
	return wireKinds
}

// Lookup returns the version in known with the name wire in a plugin's list, or false if there is none.
func Lookup(known []WireKind, wire string) (WireKind, bool) {
	for _, version := range known {
		if version.Wire == wire {
			return version, true
		}
	}
	return WireKind{}, false
}

// Served reports whether the process that conn reaches serves the version, which its list does not prove. Any reply
// counts, even an error, unless the error is that the method is unknown.
func (w WireKind) Served(ctx context.Context, conn grpc.ClientConnInterface) bool {
	if w.Probe == "" {
		return true
	}
	err := conn.Invoke(ctx, w.Probe, &emptypb.Empty{}, &emptypb.Empty{})
	return status.Code(err) != codes.Unimplemented
}
