package hostapi

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/register"
	"github.com/cleat-dev/cleat/framework/internal/tail"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
)

const (
	// StateDirEnv is the environment variable that sets the directory below which the implementations of a process
	// keep their state.
	StateDirEnv = glue.StateDirEnv
	// RunKey is the key of log lines whose value is what ForRun was given. The host removes it.
	RunKey = glue.RunKey
	// ManyOperations is the maximum number of operations of a call of ProgressOfMany.
	ManyOperations = glue.ManyOperations
)

// Environment has the settings of implementations that run in the host's own process.
type Environment = glue.Environment

// RegisterAll registers the services of all kinds in regs, PluginLister and PluginInfo on registrar, as framework.Serve
// does in a process of its own. The error names all registrations that are wrong; nothing is registered then.
func RegisterAll(registrar grpc.ServiceRegistrar, env Environment, regs ...framework.Registration) error {
	all := make([]glue.Registration, 0, len(regs))
	for _, reg := range regs {
		all = append(all, glue.Registration(reg))
	}
	return glue.RegisterAll(registrar, env, all...)
}

// ForRun returns a context for calls on behalf of a run, which run identifies within the host. What the called
// implementation logs with framework.Log has run as the value of RunKey.
func ForRun(ctx context.Context, run string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, glue.RunMetadata, run)
}

// RunOf returns the run on behalf of which a call was made, as ForRun was given it; "" if the host did not say. ctx is
// that of the called implementation.
func RunOf(ctx context.Context) string { return glue.RunOf(ctx) }

// IfAbsent returns a context for a PutObject of an ObjectStore that must not replace an object. A store that supports
// PutObjectInput.IfAbsent returns framework.ErrExists if there is one; others, such as those built for Velero, replace
// it.
func IfAbsent(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, glue.IfAbsentMetadata, "true")
}

// RetainUntil returns a context for a PutObject of an ObjectStore that asks to keep the object until a time. A store that
// is a Locker does; others, such as those built for Velero, do not.
func RetainUntil(ctx context.Context, until time.Time) context.Context {
	return glue.WithRetainUntil(ctx, until)
}

// Locks is what a bucket locks.
type Locks = glue.Locks

// Retention is until when an object is kept.
type Retention = glue.Retention

// ReceivedLocks checks the reply of an ObjectLockService.
func ReceivedLocks(reply *objectlockv1.LocksResponse) (*Locks, error) {
	return glue.ReceivedLocks(reply)
}

// ReceivedRetention checks the reply of an ObjectLockService.
func ReceivedRetention(reply *objectlockv1.RetentionResponse) (*Retention, error) {
	return glue.ReceivedRetention(reply)
}

// LockedOf returns the framework.LockedError that a status stands for; nil if it stands for another error.
func LockedOf(reply *status.Status) *framework.LockedError { return glue.LockedOf(reply) }

// AsksIfAbsent reports whether IfAbsent has made a context.
func AsksIfAbsent(ctx context.Context) bool {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return len(sent.Get(glue.IfAbsentMetadata)) > 0
}

// Range is a part of an object that a host asks an ObjectStore for.
type Range = glue.Range

// Part is the range of an object that an ObjectStore sends.
type Part = glue.Part

// WithRange returns a context for a GetObject of an ObjectStore that asks for a range. A store that supports
// GetObjectInput.Range says in the header of its answer that it sends that; others, such as those built for Velero, send
// the whole object.
func WithRange(ctx context.Context, r Range) context.Context { return glue.WithRange(ctx, r) }

// RangeOf returns the range for which WithRange has made a context, or nil.
func RangeOf(ctx context.Context) *Range { return glue.SentRange(ctx) }

// PartOf returns the part that a store says it sends; nil if it sends the whole object.
func PartOf(header metadata.MD) *Part { return glue.PartOf(header) }

// Handshake returns the settings that host and plugin must share; the values are Velero's. With the handshake, a plugin
// detects that a host has started it. It is no security measure.
func Handshake() plugin.HandshakeConfig { return glue.Handshake() }

// NewLogger returns the logger that framework.Serve makes for a plugin process.
func NewLogger(output io.Writer, level hclog.Level) hclog.Logger {
	return glue.NewLogger(output, level)
}

// ValidateName checks that name is "domain/name", as the names of plugins are.
func ValidateName(name string) error { return glue.ValidateName(name) }

// WireKind returns the one word for a kind and its version, "BackupItemActionV2".
func WireKind(kind string, version int) string { return glue.WireKind(kind, version) }

// SplitWireKind returns the kind and the version that wire stands for.
func SplitWireKind(wire string) (kind string, version int) { return glue.SplitWireKind(wire) }

// ErrorOf returns the error of package framework that a status stands for; nil when it stands for none.
func ErrorOf(code codes.Code) error { return glue.ErrorOf(code) }

// Kind is one kind of plugin at one version. H is the Go interface that authors implement.
type Kind[H any] = glue.Kind[H]

// KindVersion describes one version of a kind on the wire.
type KindVersion = glue.KindVersion

// Handlers finds the implementations that requests name.
type Handlers[H any] = glue.Handlers[H]

// Register returns the registration of an implementation of a kind that this module does not have.
func Register[H any](
	kind Kind[H], name string, construct func(context.Context, *framework.Setup) (H, error), options ...framework.Option,
) framework.Registration {
	return register.New(kind, name, construct, options)
}

// LastLines returns the end of the lines that a plugin reports for an operation, as much of it as is kept. What is cut
// off is marked.
func LastLines(text string) string { return tail.Lines(text) }

// Line checks a text for people in field of a reply: one line of at most 1024 bytes, not empty.
func Line(field, received string) error { return wire.Line(field, received) }

// Clip returns received, shortened for an error message.
func Clip(received string) string { return wire.Clip(received) }

// Timeout checks a time in field of a reply, and returns it. None and zero leave the choice to the host.
func Timeout(field string, received *durationpb.Duration) (time.Duration, error) {
	return wire.ReceivedTimeout(field, received)
}

// Pieces returns the pieces in which an object is sent to or from an ObjectStore: all but the last are full.
func Pieces(object io.Reader) iter.Seq2[[]byte, error] { return wire.Pieces(object) }
