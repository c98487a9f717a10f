package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/hostapi"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// action is a BackupItemAction that consists of its Execute.
type action func(ctx context.Context) error

func (action) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (a action) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	return biav1.NewExecuteOutput(input.Item), a(ctx)
}

func newPolicy(context.Context, *framework.Setup) (qav1.QueueAdmission, error) {
	return nil, errors.New("never made")
}

func newWriter(context.Context, *framework.Setup) (mwv1.ManifestWriter, error) {
	return nil, errors.New("never made")
}

func newMover(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	return nil, errors.New("never made")
}

func newAction(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
	return action(func(context.Context) error { return nil }), nil
}

// serve serves regs on a gRPC server without interceptors.
func serve(t *testing.T, regs ...framework.Registration) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer()
	require.NoError(t, hostapi.RegisterAll(server, hostapi.Environment{Log: hclog.NewNullLogger()}, regs...))
	listener := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		require.NoError(t, <-done)
	})
	return conn
}

// execute calls Execute of the action name and returns its error.
func execute(t *testing.T, conn grpc.ClientConnInterface, name string) error {
	t.Helper()
	_, err := backupitemactionv1.NewBackupItemActionClient(conn).Execute(t.Context(), &backupitemactionv1.ExecuteRequest{
		Plugin: name, Item: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`), Backup: []byte(`{}`),
	})
	return err
}

// failing serves an action whose Execute returns err, and returns the error that the caller receives.
func failing(t *testing.T, err error) *status.Status {
	t.Helper()
	conn := serve(t, biav1.Register("example.io/a", func(context.Context, *framework.Setup) (biav1.BackupItemAction,
		error) {
		return action(func(context.Context) error { return err }), nil
	}))
	return status.Convert(execute(t, conn, "example.io/a"))
}

// stackOf returns the stack in the details of a status; empty if it has none.
func stackOf(s *status.Status) []*shared.StackFrame {
	for _, detail := range s.Details() {
		if stack, ok := detail.(*shared.Stack); ok {
			return stack.GetFrames()
		}
	}
	return nil
}

func TestRegisterAllRefusesMistakes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		regs []framework.Registration
		want string
	}{
		"nothing": {nil, "nothing is registered"},
		"bad name": {
			[]framework.Registration{biav1.Register("stamp", newAction)},
			`register BackupItemAction "stamp": plugin name "stamp" must be`,
		},
		"twice": {
			[]framework.Registration{biav1.Register("a.b/c", newAction), biav1.Register("a.b/c", newAction)},
			`register BackupItemAction "a.b/c": the name is registered twice`,
		},
		"no function": {
			[]framework.Registration{biav1.Register("a.b/c", nil)}, "the constructor is nil",
		},
		"objects that are not resources": {
			[]framework.Registration{mwv1.Register("a.b/c", newWriter, mwv1.WithObjects("pods", "*", "deployments.apps/v1"))},
			`"deployments.apps/v1" is not a resource; want its plural name and group`,
		},
		"a time of operations for a kind that starts none": {
			[]framework.Registration{biav1.Register("a.b/c", newAction, framework.WithStallTimeout(time.Minute))},
			"WithStallTimeout is for kinds that start operations",
		},
		"no time for operations": {
			[]framework.Registration{abiav1.Register("a.b/c", newMover, framework.WithOperationTimeout(0))},
			"WithOperationTimeout(0s): want at least 1s",
		},
		"a negative time for operations": {
			[]framework.Registration{abiav1.Register("a.b/c", newMover, framework.WithStallTimeout(-time.Hour))},
			"WithStallTimeout(-1h0m0s): want at least 1s",
		},
		"more time without progress than in all": {
			[]framework.Registration{abiav1.Register("a.b/c", newMover, framework.WithStallTimeout(time.Hour),
				framework.WithOperationTimeout(time.Hour))},
			"WithStallTimeout(1h0m0s): want less than the 1h0m0s of WithOperationTimeout",
		},
		"one kind with two interfaces": {
			[]framework.Registration{
				biav1.Register("a.b/c", newAction),
				hostapi.Register(hostapi.Kind[int]{KindVersion: biav1.Kind().KindVersion}, "a.b/d",
					func(context.Context, *framework.Setup) (int, error) { return 0, nil }),
			}, "two different Go interfaces",
		},
		"a version alone": {[]framework.Registration{framework.WithVersion("v1")}, "nothing is registered"},
		"two versions": {
			[]framework.Registration{framework.WithVersion("v1"), biav1.Register("a.b/c", newAction),
				framework.WithVersion("v2")},
			`the plugin's version is set twice, to "v1" and to "v2"`,
		},
		"a schema that is none": {
			[]framework.Registration{qav1.Register("a.b/c", newPolicy,
				framework.WithConfig(map[string]any{}, framework.ConfigSchema("object")))},
			`register QueueAdmission "a.b/c": the schema of its config is not a JSON object`,
		},
		"a schema that is null": {
			[]framework.Registration{qav1.Register("a.b/c", newPolicy,
				framework.WithConfig(map[string]any{}, framework.ConfigSchema("null")))}, "is null, want a JSON object",
		},
		"a schema that is a list": {
			[]framework.Registration{qav1.Register("a.b/c", newPolicy,
				framework.WithConfig(map[string]any{}, framework.ConfigSchema("[]")))}, "is not a JSON object",
		},
		"all mistakes at once": {
			[]framework.Registration{biav1.Register("x", newAction), biav1.Register("y", newAction)}, `"y"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := grpc.NewServer()
			require.ErrorContains(t, hostapi.RegisterAll(server, hostapi.Environment{Log: hclog.NewNullLogger()}, test.regs...),
				test.want)
			require.Empty(t, server.GetServiceInfo())
		})
	}
}

func TestListPluginsHasVelerosKindsInVelerosOrder(t *testing.T) {
	t.Parallel()
	newRestore := func(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
		return nil, errors.New("never made")
	}
	conn := serve(t,
		riav1.Register("example.io/b", newRestore),
		qav1.Register("example.io/a", newPolicy),
		biav1.Register("example.io/z", newAction),
		riav1.Register("example.io/a", newRestore),
		biav1.Register("example.io/b", newAction),
	)
	answer, err := pluginlisterv1.NewPluginListerClient(conn).ListPlugins(t.Context(), &shared.Empty{})
	require.NoError(t, err)
	var listed []string
	for _, plugin := range answer.GetPlugins() {
		require.Equal(t, os.Args[0], plugin.GetCommand())
		listed = append(listed, plugin.GetKind()+" "+plugin.GetName())
	}
	require.Equal(t, []string{
		"BackupItemAction example.io/b", "BackupItemAction example.io/z",
		"RestoreItemAction example.io/a", "RestoreItemAction example.io/b",
	}, listed)
}

func TestPluginInfoHasAllKindsWithVersionsAndSchemas(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"freeze":{"type":"string"}}}`
	conn := serve(t,
		framework.WithVersion("1.2 (blue)"),
		qav1.Register("example.io/b", newPolicy, framework.WithConfig(map[string]any{}, framework.ConfigSchema(schema))),
		qav1.Register("example.io/a", newPolicy),
		mwv1.Register("example.io/w", newWriter, mwv1.WithObjects("pods", "deployments.apps")),
		biav2.Register("example.io/z", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return nil, errors.New("never made")
		}),
		biav1.Register("example.io/z", newAction),
	)
	answer, err := plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(t.Context(),
		&plugininfov1.GetPluginInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, "1.2 (blue)", answer.GetPluginVersion())
	var told []string
	for _, plugin := range answer.GetPlugins() {
		told = append(told, fmt.Sprintf("%s %d %s %s%s", plugin.GetKind(), plugin.GetVersion(), plugin.GetName(),
			plugin.GetConfigSchema(),
			strings.Join(plugin.GetObjects(), ",")))
	}
	require.Equal(t, []string{
		"BackupItemAction 1 example.io/z ", "BackupItemAction 2 example.io/z ",
		"ManifestWriter 1 example.io/w pods,deployments.apps",
		"QueueAdmission 1 example.io/a ", "QueueAdmission 1 example.io/b " + schema,
	}, told)
}

func TestPluginInfoHasTheLimitsOfOperations(t *testing.T) {
	t.Parallel()
	conn := serve(t,
		abiav1.Register("example.io/a", newMover, framework.WithOperationTimeout(12*time.Hour),
			framework.WithStallTimeout(10*time.Minute)),
		abiav1.Register("example.io/b", newMover),
	)
	answer, err := plugininfov1.NewPluginInfoServiceClient(conn).GetPluginInfo(t.Context(),
		&plugininfov1.GetPluginInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, 12*time.Hour, answer.GetPlugins()[0].GetOperationTimeout().AsDuration())
	require.Equal(t, 10*time.Minute, answer.GetPlugins()[0].GetStallTimeout().AsDuration())
	require.Nil(t, answer.GetPlugins()[1].OperationTimeout)
	require.Nil(t, answer.GetPlugins()[1].StallTimeout)
}

func TestConstructorIsCalledOnceAtFirstCall(t *testing.T) {
	t.Parallel()
	var made, others atomic.Int32
	conn := serve(t,
		biav1.Register("example.io/a", func(ctx context.Context, setup *framework.Setup) (biav1.BackupItemAction, error) {
			made.Add(1)
			return newAction(ctx, setup)
		}),
		biav1.Register("example.io/b", func(ctx context.Context, setup *framework.Setup) (biav1.BackupItemAction, error) {
			others.Add(1)
			return newAction(ctx, setup)
		}),
	)
	var calls sync.WaitGroup
	for range 16 {
		calls.Go(func() { _ = execute(t, conn, "example.io/a") })
	}
	calls.Wait()
	require.NoError(t, execute(t, conn, "example.io/a"))
	require.EqualValues(t, 1, made.Load())
	require.Zero(t, others.Load())
}

func TestConstructorThatFailedIsCalledAgain(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	conn := serve(t, biav1.Register("example.io/a",
		func(ctx context.Context, setup *framework.Setup) (biav1.BackupItemAction, error) {
			switch tries.Add(1) {
			case 1:
				return nil, errors.New("no credentials yet")
			case 2:
				return nil, nil //nolint:nilnil // the mistake under test
			case 3:
				panic("too early")
			default:
				return newAction(ctx, setup)
			}
		}))
	require.ErrorContains(t, execute(t, conn, "example.io/a"), "start: no credentials yet")
	require.ErrorContains(t, execute(t, conn, "example.io/a"), "neither an implementation nor an error")
	require.ErrorContains(t, execute(t, conn, "example.io/a"), "plugin panicked: too early")
	require.NoError(t, execute(t, conn, "example.io/a"))
	require.NoError(t, execute(t, conn, "example.io/a"))
	require.EqualValues(t, 4, tries.Load())
}

func TestUnknownNameIsErrorWithKnownNames(t *testing.T) {
	t.Parallel()
	conn := serve(t, biav1.Register("example.io/b", newAction), biav1.Register("example.io/a", newAction))
	answered := status.Convert(execute(t, conn, "example.io/c"))
	require.Equal(t, codes.Unknown, answered.Code())
	require.Equal(t, `no BackupItemAction "example.io/c" here; there is: example.io/a, example.io/b`, answered.Message())
}

func TestErrorIsSentAsStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err     error
		code    codes.Code
		message string
	}{
		"plain":    {errors.New("disk full"), codes.Unknown, "disk full"},
		"a status": {status.Error(codes.ResourceExhausted, "quota"), codes.ResourceExhausted, "quota"},
		"not found": {fmt.Errorf("get: no object a: %w", framework.ErrNotFound), codes.NotFound,
			"get: no object a: not found"},
		"unavailable":    {fmt.Errorf("get: %w", framework.ErrUnavailable), codes.Unavailable, "get: unavailable"},
		"invalid":        {errors.Join(framework.ErrInvalid, errors.New("b")), codes.InvalidArgument, "invalid\nb"},
		"no valid UTF-8": {errors.New("name \xff"), codes.Unknown, "name \uFFFD"},
		"a context's":    {context.Canceled, codes.Unknown, "context canceled"},
		"long": {errors.New(strings.Repeat("x", 40000)), codes.Unknown, strings.Repeat("x", 32768) +
			"... (7232 bytes more)"},
		"a long status": {
			status.Error(codes.NotFound, strings.Repeat("x", 40000)), codes.NotFound,
			strings.Repeat("x", 32768) + "... (7232 bytes more)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answered := failing(t, test.err)
			require.Equal(t, test.code, answered.Code())
			require.Equal(t, test.message, answered.Message())
			require.Empty(t, answered.Details())
		})
	}
}

// legacyError is shaped like an error of github.com/pkg/errors.
type legacyError struct{ trace []uintptr }

type legacyTrace []legacyFrame

type legacyFrame uintptr

func (e legacyError) Error() string { return "legacy" }

func (e legacyError) StackTrace() legacyTrace {
	var trace legacyTrace
	for _, pc := range e.trace {
		trace = append(trace, legacyFrame(pc))
	}
	return trace
}

// brokenError panics when its text is requested.
type brokenError struct{}

func (*brokenError) Error() string { panic("no text") }

// callers returns the stack of its caller, as errors of other modules record it.
func callers() []uintptr {
	pcs := make([]uintptr, 8)
	return pcs[:runtime.Callers(2, pcs)]
}

func TestErrorIsSentWithItsStack(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"Errorf":               framework.Errorf("here"),
		"Errorf, wrapped":      fmt.Errorf("outer: %w", framework.Errorf("here")),
		"WithStack":            framework.WithStack(errors.New("here")),
		"of two the innermost": fmt.Errorf("outer: %w", framework.WithStack(framework.Errorf("here"))),
		"with a status":        framework.WithStack(status.Error(codes.NotFound, "here")),
		"NotFound":             framework.NotFound("here"),
		"Unavailable, wrapped": fmt.Errorf("outer: %w", framework.Unavailable("here")),
		"pkg/errors":           legacyError{trace: callers()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frames := stackOf(failing(t, err))
			require.NotEmpty(t, frames)
			require.Contains(t, frames[0].GetFile(), "framework/register_test.go")
			require.Contains(t, frames[0].GetFunction(), "TestErrorIsSentWithItsStack")
			require.Positive(t, frames[0].GetLine())
		})
	}
	require.NoError(t, framework.WithStack(nil))
}

func TestStatusKeepsItsStack(t *testing.T) {
	t.Parallel()
	brought, err := status.New(codes.NotFound, "gone").WithDetails(
		&shared.Stack{Frames: []*shared.StackFrame{{File: "other.go", Line: 7, Function: "elsewhere"}}})
	require.NoError(t, err)
	frames := stackOf(failing(t, framework.WithStack(brought.Err())))
	require.Len(t, frames, 1)
	require.Equal(t, "other.go", frames[0].GetFile())
}

func TestPanicFailsOnlyItsCall(t *testing.T) {
	t.Parallel()
	conn := serve(t,
		biav1.Register("example.io/panics", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return action(func(context.Context) error { panic(errors.New("out of luck")) }), nil
		}),
		biav1.Register("example.io/nil", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return action(func(context.Context) error { var a *action; return (*a)(nil) }), nil //nolint:staticcheck // the panic under test
		}),
		biav1.Register("example.io/broken", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return action(func(context.Context) error { return &brokenError{} }), nil
		}),
		biav1.Register("example.io/fine", newAction),
	)
	for name, want := range map[string]string{
		"example.io/panics": "plugin panicked: out of luck",
		"example.io/nil":    "plugin panicked: runtime error: invalid memory address or nil pointer dereference",
		"example.io/broken": "plugin panicked: no text",
	} {
		answered := status.Convert(execute(t, conn, name))
		require.Equal(t, codes.Aborted, answered.Code())
		require.Equal(t, want, answered.Message())
		frames := stackOf(answered)
		require.NotEmpty(t, frames)
		require.Contains(t, frames[0].GetFile(), "register_test.go", "frame 0 is where it panicked")
		require.LessOrEqual(t, len(frames), 32)
	}
	require.NoError(t, execute(t, conn, "example.io/fine"))
}
