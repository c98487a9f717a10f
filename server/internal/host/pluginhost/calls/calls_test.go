package calls

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

func TestTableHoldsDeclarationsOfAllCalls(t *testing.T) {
	t.Parallel()
	table := NewTable(Deadlines{}, kinds.All())
	const query, store, execute = time.Minute, 10 * time.Minute, 4 * time.Hour
	const idle, silence = 10 * time.Minute, 2 * time.Minute
	for method, want := range map[string]Call{
		backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName: {Call: versioning.Call{
			Class: versioning.Query, Repeatable: true, Constant: true,
		}, Kind: "BackupItemAction", Name: "AppliesTo", Limit: query},
		backupitemactionv1.BackupItemAction_Execute_FullMethodName: {Call: versioning.Call{
			Class: versioning.Execute,
		}, Kind: "BackupItemAction", Name: "Execute", Limit: execute},
		backupitemactionv2.BackupItemAction_Execute_FullMethodName: {Call: versioning.Call{
			Class: versioning.Execute,
		}, Kind: "BackupItemAction", Name: "Execute", Limit: execute},
		backupitemactionv2.BackupItemAction_Progress_FullMethodName: {Call: versioning.Call{
			Class: versioning.Query, Repeatable: true,
		}, Kind: "BackupItemAction", Name: "Progress", Limit: query},
		backupitemactionv2.BackupItemAction_Cancel_FullMethodName: {Call: versioning.Call{
			Class: versioning.Query,
		}, Kind: "BackupItemAction", Name: "Cancel", Limit: query},
		asyncbackupitemactionv1.AsyncBackupItemActionService_Start_FullMethodName: {Call: versioning.Call{
			Class: versioning.Execute, Repeatable: true,
		}, Kind: "AsyncBackupItemAction", Name: "Start", Limit: execute},
		restoreitemactionv2.RestoreItemAction_AreAdditionalItemsReady_FullMethodName: {Call: versioning.Call{
			Class: versioning.Query, Repeatable: true,
		}, Kind: "RestoreItemAction", Name: "AreAdditionalItemsReady", Limit: query},
		restoreitemactionv2.RestoreItemAction_Execute_FullMethodName: {Call: versioning.Call{
			Class: versioning.Execute, Alone: true,
		}, Kind: "RestoreItemAction", Name: "Execute", Limit: execute},
		itemblockactionv1.ItemBlockAction_GetRelatedItems_FullMethodName: {Call: versioning.Call{
			Class: versioning.Execute,
		}, Kind: "ItemBlockAction", Name: "GetRelatedItems", Limit: execute},
		objectstorev1.ObjectStore_Init_FullMethodName: {Call: versioning.Call{
			Class: versioning.Query, Init: true,
		}, Kind: "ObjectStore", Name: "Init", Limit: query},
		objectstorev1.ObjectStore_PutObject_FullMethodName: {Call: versioning.Call{
			Class: versioning.Execute, Silence: silence,
		}, Kind: "ObjectStore", Name: "PutObject", Limit: silence, Idle: silence},
		objectstorev1.ObjectStore_ObjectExists_FullMethodName: {Call: versioning.Call{
			Class: versioning.Transfer, Repeatable: true, Silence: silence,
		}, Kind: "ObjectStore", Name: "ObjectExists", Limit: silence, Idle: silence},
		objectstorev1.ObjectStore_ListObjects_FullMethodName: {Call: versioning.Call{
			Class: versioning.Transfer, Repeatable: true,
		}, Kind: "ObjectStore", Name: "ListObjects", Limit: store},
		objectstorev1.ObjectStore_DeleteObject_FullMethodName: {Call: versioning.Call{
			Class: versioning.Transfer, Silence: silence,
		}, Kind: "ObjectStore", Name: "DeleteObject", Limit: silence, Idle: silence},
		queueadmissionv1.QueueAdmissionService_Decide_FullMethodName: {Call: versioning.Call{
			Class: versioning.Decision, Repeatable: true,
		}, Kind: "QueueAdmission", Name: "Decide", Limit: query},
		loadsoothingv1.LoadSoothingService_Admit_FullMethodName: {Call: versioning.Call{
			Class: versioning.Decision, Repeatable: true,
		}, Kind: "LoadSoothing", Name: "Admit", Limit: query},
		manifestwriterv1.ManifestWriterService_Write_FullMethodName: {Call: versioning.Call{
			Class: versioning.Execute, GivesAway: true,
		}, Kind: "ManifestWriter", Name: "Write", Limit: execute},
		pluginlisterv1.PluginLister_ListPlugins_FullMethodName: {Call: versioning.Call{
			Class: versioning.Query, Repeatable: true,
		}, Kind: "PluginLister", Name: "ListPlugins", Limit: query},
		plugininfov1.PluginInfoService_GetPluginInfo_FullMethodName: {Call: versioning.Call{
			Class: versioning.Query, Repeatable: true,
		}, Kind: "PluginInfo", Name: "GetPluginInfo", Limit: query},
		"/from.the.Future/Unheard": {Call: versioning.Call{
			Class: versioning.Execute,
		}, Kind: "Future", Name: "Unheard", Limit: execute},
	} {
		want.Idle = cmp.Or(want.Idle, idle)
		require.Equal(t, want, table.Call(method), method)
	}
}

func TestDeadlineOfKindBoundsOnlyItsWork(t *testing.T) {
	t.Parallel()
	table := NewTable(Deadlines{Query: time.Second, Kinds: map[string]time.Duration{
		"BackupItemAction": 2 * time.Second, "QueueAdmission": 3 * time.Second, "ManifestWriter": 4 * time.Second,
		"ObjectStore": -1, "LoadSoothing": 0,
	}}, kinds.All())
	for method, want := range map[string]time.Duration{
		backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName:              time.Second,
		backupitemactionv1.BackupItemAction_Execute_FullMethodName:                2 * time.Second,
		backupitemactionv2.BackupItemAction_Execute_FullMethodName:                2 * time.Second,
		backupitemactionv2.BackupItemAction_Progress_FullMethodName:               time.Second,
		asyncbackupitemactionv1.AsyncBackupItemActionService_Start_FullMethodName: 4 * time.Hour,
		queueadmissionv1.QueueAdmissionService_Decide_FullMethodName:              3 * time.Second,
		loadsoothingv1.LoadSoothingService_Admit_FullMethodName:                   time.Second,
		objectstorev1.ObjectStore_ListObjects_FullMethodName:                      -1,
		objectstorev1.ObjectStore_Init_FullMethodName:                             time.Second,
	} {
		require.Equal(t, want, table.Call(method).Limit, method)
	}
	require.Equal(t, 4*time.Second, table.Call(manifestwriterv1.ManifestWriterService_Write_FullMethodName).Idle)
	require.Equal(t, 10*time.Minute, table.Call("/from.the.Future/Stream").Idle)
}

func TestWithDeadlineOverridesTable(t *testing.T) {
	t.Parallel()
	const method = "/cleat.queueadmission.v1.QueueAdmissionService/Decide"
	table := NewTable(Deadlines{Kinds: map[string]time.Duration{"QueueAdmission": time.Hour}}, kinds.All())
	require.Equal(t, time.Hour, table.Call(method).Within(t.Context()).Limit)
	own := table.Call(method).Within(WithDeadline(t.Context(), time.Second))
	require.Equal(t, time.Second, own.Limit)
	require.Equal(t, time.Second, own.Idle)
}
