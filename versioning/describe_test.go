package versioning_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// describer is a plugin that describes itself as a test wants.
type describer struct {
	pluginlisterv1.UnimplementedPluginListerServer
	plugininfov1.UnimplementedPluginInfoServiceServer
	listed []*pluginlisterv1.PluginIdentifier
	info   *plugininfov1.GetPluginInfoResponse
	err    error
}

func (p describer) ListPlugins(context.Context, *shared.Empty) (*pluginlisterv1.ListPluginsResponse, error) {
	return &pluginlisterv1.ListPluginsResponse{Plugins: p.listed}, nil
}

func (p describer) GetPluginInfo(
	context.Context, *plugininfov1.GetPluginInfoRequest,
) (*plugininfov1.GetPluginInfoResponse, error) {
	return p.info, p.err
}

func (p describer) describe(t *testing.T) (versioning.Description, error) {
	t.Helper()
	return versioning.Describe(t.Context(), plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		pluginlisterv1.RegisterPluginListerServer(server, p)
		if p.info != nil || p.err != nil {
			plugininfov1.RegisterPluginInfoServiceServer(server, p)
		}
	}))
}

func TestDescribeMergesListAndPluginInfo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plugin describer
		want   versioning.Description
	}{
		"stock Velero's": {
			describer{listed: []*pluginlisterv1.PluginIdentifier{{Kind: "ObjectStore", Name: "velero.io/aws"},
				{Kind: "FromTheFuture", Name: "a.b/c"}}},
			versioning.Description{PerRun: true, Plugins: []versioning.Described{
				{Listed: versioning.Listed{Kind: "ObjectStore", Name: "velero.io/aws"}},
				{Listed: versioning.Listed{Kind: "FromTheFuture", Name: "a.b/c"}},
			}},
		},
		"with a PluginInfo that is not served": {
			describer{listed: []*pluginlisterv1.PluginIdentifier{{Kind: "ObjectStore", Name: "velero.io/aws"}},
				err: status.Error(codes.Unimplemented, "not yet")},
			versioning.Description{PerRun: true, Plugins: []versioning.Described{
				{Listed: versioning.Listed{Kind: "ObjectStore", Name: "velero.io/aws"}},
			}},
		},
		"with an empty PluginInfo": {
			describer{info: &plugininfov1.GetPluginInfoResponse{}},
			versioning.Description{Informed: true},
		},
		"with a process for each run": {
			describer{info: &plugininfov1.GetPluginInfoResponse{ProcessPerRun: true}},
			versioning.Description{Informed: true, PerRun: true},
		},
		"with both": {
			describer{
				listed: []*pluginlisterv1.PluginIdentifier{
					{Kind: "BackupItemActionV2", Name: "a.b/z"}, {Kind: "BackupItemAction", Name: "a.b/z"}, {Kind: "ObjectStore",
						Name: "a.b/y"},
				},
				info: &plugininfov1.GetPluginInfoResponse{
					PluginVersion: "1.2 (blue)", FrameworkVersion: "v9.0.0",
					Plugins: []*plugininfov1.Plugin{
						{Kind: "BackupItemAction", Version: 1, Name: "a.b/z"},
						{Kind: "BackupItemAction", Version: 2, Name: "a.b/z", ConfigSchema: []byte(`{"type":"object"}`)},
						{Kind: "QueueAdmission", Version: 1, Name: "a.b/x"},
						{Kind: "QueueAdmission", Version: 7, Name: "a.b/x"},
						{Kind: "AsyncBackupItemAction", Version: 1, Name: "a.b/w", OperationTimeout: durationpb.New(time.Hour),
							StallTimeout: durationpb.New(time.Minute)},
					},
				},
			},
			versioning.Description{
				Informed: true, PluginVersion: "1.2 (blue)", FrameworkVersion: "v9.0.0",
				Plugins: []versioning.Described{
					{Listed: versioning.Listed{Kind: "BackupItemActionV2", Name: "a.b/z"}, ConfigSchema: []byte(`{"type":"object"}`)},
					{Listed: versioning.Listed{Kind: "BackupItemAction", Name: "a.b/z"}},
					{Listed: versioning.Listed{Kind: "ObjectStore", Name: "a.b/y"}},
					{Listed: versioning.Listed{Kind: "QueueAdmission", Name: "a.b/x"}},
					{Listed: versioning.Listed{Kind: "QueueAdmissionV7", Name: "a.b/x"}},
					{Listed: versioning.Listed{Kind: "AsyncBackupItemAction", Name: "a.b/w"}, OperationTimeout: time.Hour,
						StallTimeout: time.Minute},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.plugin.describe(t)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Len(t, got.Listed(), len(test.want.Plugins))
			for i, line := range got.Listed() {
				require.Equal(t, test.want.Plugins[i].Listed, line)
			}
		})
	}
}

func TestInvalidPluginInfoIsRejected(t *testing.T) {
	t.Parallel()
	plugins := func(plugins ...*plugininfov1.Plugin) *plugininfov1.GetPluginInfoResponse {
		return &plugininfov1.GetPluginInfoResponse{Plugins: plugins}
	}
	fine := &plugininfov1.Plugin{Kind: "QueueAdmission", Version: 1, Name: "a.b/c"}
	for want, info := range map[string]*plugininfov1.GetPluginInfoResponse{
		`plugins[1]: "a.b/c" has no kind`: plugins(fine, &plugininfov1.Plugin{Version: 1, Name: "a.b/c"}),
		"plugins[0]: QueueAdmission a.b/c has version 0, want 1 or more": plugins(&plugininfov1.Plugin{Kind: "QueueAdmission",
			Name: "a.b/c"}),
		"has version -3, want 1 or more": plugins(&plugininfov1.Plugin{Kind: "QueueAdmission", Version: -3, Name: "a.b/c"}),
		`kind "QueueAdmissionV2" of a.b/c must be without its version`: plugins(
			&plugininfov1.Plugin{Kind: "QueueAdmissionV2", Version: 1, Name: "a.b/c"},
		),
		"plugins[1]: QueueAdmission a.b/c is there twice": plugins(fine, fine),
		"config schema of QueueAdmission a.b/c is not a JSON object": plugins(&plugininfov1.Plugin{Kind: "QueueAdmission",
			Version: 1, Name: "a.b/c", ConfigSchema: []byte("null")}),
		"roles of BackupItemAction a.b/c is empty": plugins(&plugininfov1.Plugin{Kind: "BackupItemAction",
			Version: 1, Name: "a.b/c", Roles: []string{""}}),
		"roles of BackupItemAction a.b/c: csi is there twice": plugins(&plugininfov1.Plugin{Kind: "BackupItemAction",
			Version: 1, Name: "a.b/c", Roles: []string{"csi", "later", "csi"}}),
		"roles of ObjectStore a.b/c: pod-volumes is for BackupItemAction, AsyncBackupItemAction": plugins(
			&plugininfov1.Plugin{Kind: "ObjectStore", Version: 1, Name: "a.b/c", Roles: []string{"pod-volumes"}}),
		"objects of ManifestWriter a.b/c is empty": plugins(&plugininfov1.Plugin{Kind: "ManifestWriter",
			Version: 1, Name: "a.b/c", Objects: []string{"pods", ""}}),
		"config schema of QueueAdmissionV2 a.b/c is not a JSON object": plugins(&plugininfov1.Plugin{Kind: "QueueAdmission",
			Version: 2, Name: "a.b/c", ConfigSchema: []byte("{")}),
		`plugin_version "1\n2" has control characters, want one line`: {PluginVersion: "1\n2"},
		"stall_timeout of AsyncBackupItemAction a.b/c is -1s": plugins(&plugininfov1.Plugin{
			Kind: "AsyncBackupItemAction", Version: 1, Name: "a.b/c", StallTimeout: durationpb.New(-time.Second),
		}),
		"operation_timeout of AsyncBackupItemAction a.b/c is not a duration": plugins(&plugininfov1.Plugin{
			Kind: "AsyncBackupItemAction", Version: 1, Name: "a.b/c", OperationTimeout: &durationpb.Duration{Seconds: 1,
				Nanos: -1},
		}),
		"framework_version is empty": {FrameworkVersion: " "},
	} {
		_, err := describer{info: info}.describe(t)
		require.ErrorIs(t, err, versioning.ErrInvalidReply)
		require.ErrorContains(t, err, "plugin info: invalid reply: ")
		require.ErrorContains(t, err, want)
	}
}

func TestFailingPluginInfoIsAnError(t *testing.T) {
	t.Parallel()
	_, err := describer{err: status.Error(codes.Unavailable, "the process has exited")}.describe(t)
	require.ErrorContains(t, err, "ask for plugin info: ")
	require.ErrorContains(t, err, "the process has exited")
	_, err = versioning.Describe(t.Context(), plugintest.ServeRaw(t, nil, func(*grpc.Server) {}))
	require.ErrorContains(t, err, "list plugins: ")
}

func TestDescribeReturnsAllKindsOfARealProcess(t *testing.T) {
	t.Parallel()
	_, conn := startPlugin(t, "kinds")
	description, err := versioning.Describe(t.Context(), conn)
	require.NoError(t, err)
	require.True(t, description.Informed)
	require.Equal(t, "1.2.3", description.PluginVersion)
	require.Equal(t, []versioning.Listed{
		{Kind: "BackupItemAction", Name: "example.io/mover"}, {Kind: "BackupItemActionV2", Name: "example.io/mover"},
		{Kind: "VolumeSnapshotter", Name: "example.io/san"}, {Kind: "RestoreItemActionV2", Name: "example.io/fetcher"},
		{Kind: "DeleteItemAction", Name: "example.io/forget"}, {Kind: "ItemBlockAction", Name: "example.io/shards"},
		{Kind: "AsyncBackupItemAction", Name: "example.io/copier"}, {Kind: "AsyncRestoreItemAction",
			Name: "example.io/copier"},
		{Kind: "DataMover", Name: "example.io/shelf"}, {Kind: "LoadSoothing", Name: "example.io/limit"},
		{Kind: "ManifestWriter", Name: "example.io/inventory"},
		{Kind: "QueueAdmission", Name: "example.io/first-come"},
	}, description.Listed())
	for _, plugin := range description.Plugins {
		_, known := kinds.Lookup(plugin.Kind)
		require.True(t, known, plugin.Kind)
		require.Equal(t, plugin.Kind == "QueueAdmission" || plugin.Kind == "VolumeSnapshotter", plugin.ConfigSchema != nil,
			plugin.Kind)
	}

	copier := bindUsed(conn, kinds.AsyncBackupItemAction(), description.Listed())
	require.Len(t, copier, 1)
	result, err := copier[0].Execute(t.Context(), unquoted(pod), []byte(`{"metadata":{"uid":"u-1"}}`))
	require.NoError(t, err)
	require.Equal(t, "u-1/Pod/in-1/a", result.OperationID)
}
