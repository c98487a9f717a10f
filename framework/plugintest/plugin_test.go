package plugintest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/plugintest"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

const secret = `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: tls}}`

// action is a BackupItemAction that consists of its Execute.
type action struct {
	biav2.ExecuteOnly
	log     hclog.Logger
	execute func(ctx context.Context, log hclog.Logger, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error)
}

func (a action) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"secrets"}, LabelSelector: "a=b"}, nil
}

func (a action) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	return a.execute(ctx, a.log, input)
}

func register(
	name string, execute func(context.Context, hclog.Logger, *biav2.ExecuteInput) (*biav2.ExecuteOutput, error),
) framework.Registration {
	return biav2.Register(name, func(_ context.Context, setup *framework.Setup) (biav2.BackupItemAction, error) {
		return action{log: setup.Logger(), execute: execute}, nil
	})
}

func stamp(_ context.Context, log hclog.Logger, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	log.Info("stamped", "name", input.Item.GetName())
	input.Item.SetAnnotations(map[string]string{"example.io/stamp": input.Backup.Name})
	return biav2.NewExecuteOutput(input.Item), nil
}

func fail(context.Context, hclog.Logger, *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	return nil, fmt.Errorf("stamp: %w", framework.Errorf("no ink"))
}

func input(t *testing.T) *biav2.ExecuteInput {
	t.Helper()
	return &biav2.ExecuteInput{Item: plugintest.Object(t, secret), Backup: plugintest.Backup("nightly")}
}

func TestActionIsCalledThroughItsInterface(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, register("example.io/stamp", stamp))
	stamp := plugin.BackupItemActionV2("example.io/stamp")

	selector, err := stamp.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"secrets"}, LabelSelector: "a=b"}, selector)

	sent := input(t)
	output, err := stamp.Execute(t.Context(), sent)
	require.NoError(t, err)
	require.Equal(t, "nightly", output.UpdatedItem.GetAnnotations()["example.io/stamp"])
	require.Empty(t, sent.Item.GetAnnotations(), "the action has its own copy")

	_, err = stamp.Progress(t.Context(), &biav2.ProgressInput{OperationID: "x", Backup: sent.Backup})
	require.EqualError(t, err, `BackupItemAction(example.io/stamp): there is no operation "x": the action starts none`)
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.NoError(t, stamp.Cancel(t.Context(), &biav2.CancelInput{OperationID: "x", Backup: sent.Backup}))
}

// keeper is a RestoreItemAction that restores items as they are.
type keeper struct{ riav2.ExecuteOnly }

func (keeper) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (keeper) Execute(context.Context, *riav2.ExecuteInput) (*riav2.ExecuteOutput, error) {
	return nil, nil //nolint:nilnil // what the interface says an unchanged item is
}

func TestActionThatOnlyExecutesNeedsTwoMethods(t *testing.T) {
	t.Parallel()
	keep := plugintest.Run(t,
		riav2.Register("example.io/keep", func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
			return keeper{}, nil
		})).RestoreItemActionV2("example.io/keep")
	item, restore := plugintest.Object(t, secret), plugintest.Restore("back", "nightly")
	output, err := keep.Execute(t.Context(), &riav2.ExecuteInput{Item: item, ItemFromBackup: item, Restore: restore})
	require.NoError(t, err)
	require.Equal(t, riav2.NewExecuteOutput(item), output)
	ready, err := keep.AreAdditionalItemsReady(t.Context(), &riav2.AreAdditionalItemsReadyInput{Restore: restore})
	require.NoError(t, err)
	require.True(t, ready.Ready)
	_, err = keep.Progress(t.Context(), &riav2.ProgressInput{OperationID: "x", Restore: restore})
	require.ErrorContains(t, err, "the action starts none")
	require.NoError(t, keep.Cancel(t.Context(), &riav2.CancelInput{OperationID: "x", Restore: restore}))
}

func TestErrorMatchesHosts(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t,
		register("example.io/fail", fail),
		register("example.io/panic", func(context.Context, hclog.Logger, *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
			panic("out of luck")
		}),
		register("example.io/wait", func(ctx context.Context, _ hclog.Logger, _ *biav2.ExecuteInput) (*biav2.ExecuteOutput,
			error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
	)
	_, err := plugin.BackupItemActionV2("example.io/fail").Execute(t.Context(), input(t))
	require.EqualError(t, err, "BackupItemAction(example.io/fail): stamp: no ink")
	var failed *plugintest.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, codes.Unknown, failed.Code)
	require.Contains(t, failed.Frames[0].Function, "plugintest_test.fail")
	require.Regexp(t, `(?s)^BackupItemAction\(example.io/fail\): stamp: no ink\n.*plugintest_test\.fail\n\t.*plugin_test\.go:\d+`, fmt.Sprintf("%+v", err))
	require.Equal(t, err.Error(), fmt.Sprintf("%s", err))
	require.Equal(t, `"`+err.Error()+`"`, fmt.Sprintf("%q", err))

	_, err = plugin.BackupItemActionV2("example.io/panic").Execute(t.Context(), input(t))
	require.ErrorContains(t, err, "plugin panicked: out of luck")
	require.ErrorAs(t, err, &failed)
	require.Equal(t, codes.Aborted, failed.Code)
	require.Equal(t, hclog.Error, plugin.AwaitLog("plugin panicked").Level)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = plugin.BackupItemActionV2("example.io/wait").Execute(ctx, input(t))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, context.DeadlineExceeded)

	_, err = plugin.BackupItemActionV2("example.io/fail").Execute(t.Context(), &biav2.ExecuteInput{})
	require.ErrorContains(t, err, "decode item of the request")

	plugin.Kill()
	plugin.Kill()
	_, err = plugin.BackupItemActionV2("example.io/fail").Execute(t.Context(), input(t))
	require.ErrorAs(t, err, &failed)
	require.Equal(t, codes.Unavailable, failed.Code)
}

func TestLogLinesAreKept(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, register("example.io/stamp", stamp))
	_, err := plugin.BackupItemActionV2("example.io/stamp").Execute(t.Context(), input(t))
	require.NoError(t, err)
	lines := plugin.Logs()
	require.Len(t, lines, 1)
	require.Equal(t, hclog.Info, lines[0].Level)
	require.Equal(t, "stamped", lines[0].Message)
	require.Equal(t, "tls", lines[0].Fields["name"])
	require.Equal(t, "example.io/stamp", lines[0].Fields["plugin"])
	require.Regexp(t, `^plugintest/plugin_test\.go:\d+$`, lines[0].Fields["logSource"])
	require.Equal(t, lines[0], plugin.AwaitLog("stamped"))
}

// watcher is a policy that keeps what it was asked.
type watcher struct{ asked *qav1.DecideInput }

func (w *watcher) Decide(_ context.Context, input *qav1.DecideInput) (*qav1.DecideOutput, error) {
	w.asked = input
	return &qav1.DecideOutput{}, nil
}

func TestWholeSnapshotReachesThePolicy(t *testing.T) {
	t.Parallel()
	policy := &watcher{}
	plugin := plugintest.Run(t, qav1.Register("example.io/watcher",
		func(context.Context, *framework.Setup) (qav1.QueueAdmission, error) { return policy, nil }))
	backups := func(name string) []qav1.Backup {
		return []qav1.Backup{{Name: name, Namespaces: []string{"shop"}, ClusterScope: qav1.ClusterScopeRelated}}
	}
	input := &qav1.DecideInput{Now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Limit: 3,
		Running: backups("running"), Ready: backups("ready"), Queued: backups("queued"),
		Operating: backups("operating"), Restoring: backups("restores/restoring"),
		NamespaceLabels: map[string]map[string]string{"shop": {"priority": "high"}}}
	_, err := plugin.QueueAdmissionV1("example.io/watcher").Decide(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, input, policy.asked)
}

func TestRegisteredReturnsAllImplementations(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t,
		register("example.io/stamp", stamp),
		qav1.Register("example.io/turns", func(context.Context, *framework.Setup) (qav1.QueueAdmission, error) {
			return nil, errors.New("never made")
		},
			framework.WithConfig(map[string]string{})))
	require.Equal(t, []plugintest.Registered{
		{Kind: "BackupItemAction", Version: 2, Name: "example.io/stamp"},
		{Kind: "QueueAdmission", Version: 1, Name: "example.io/turns",
			ConfigSchema: `{"type":"object","additionalProperties":{"type":"string"}}`},
	}, plugin.Registered())
}

// mistake is a test that records the message of Fatal and ends.
type mistake struct {
	testing.TB
	said string
}

func (m *mistake) Helper() {}
func (m *mistake) Fatalf(format string, args ...any) {
	m.said = fmt.Sprintf(format, args...)
	panic(m)
}

func (m *mistake) Fatal(args ...any) {
	m.said = fmt.Sprint(args...)
	panic(m)
}

func TestMistakeEndsTestWithReason(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run  func(t testing.TB)
		want string
	}{
		"a bad name": {
			func(t testing.TB) { plugintest.Run(t, register("stamp", stamp)) }, `plugin name "stamp" must be "domain/name"`,
		},
		"an unknown name": {
			func(t testing.TB) {
				plugintest.Run(t, register("example.io/stamp", stamp)).BackupItemActionV2("example.io/stmp")
			},
			"the plugin has no BackupItemAction v2 example.io/stmp; it has: BackupItemAction v2 example.io/stamp",
		},
		"another version": {
			func(t testing.TB) {
				plugintest.Run(t, register("example.io/stamp", stamp)).BackupItemActionV1("example.io/stamp")
			},
			"the plugin has no BackupItemAction v1 example.io/stamp",
		},
		"no YAML": {func(t testing.TB) { plugintest.Object(t, "{") }, "object is not YAML"},
		"no kind": {func(t testing.TB) { plugintest.Object(t, "{apiVersion: v1}") }, "object is none of Kubernetes"},
		"no name": {func(t testing.TB) { plugintest.Object(t, "{apiVersion: v1, kind: Pod}") },
			"object needs apiVersion and metadata.name"},
		"no such program": {func(t testing.TB) { plugintest.Start(t, "/nowhere") }, "start the plugin /nowhere"},
		"no such package": {func(t testing.TB) { plugintest.Build(t, "./nowhere") }, "go build ./nowhere"},
		"no plugin": {func(t testing.TB) { plugintest.Start(t, "/bin/sh", "-c", "echo what is this >&2") },
			"what is this"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &mistake{TB: t}
			require.PanicsWithValue(t, m, func() { test.run(m) })
			require.Contains(t, m.said, test.want)
		})
	}
}
