package pluginhost

import (
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
)

func TestOnlyDocumentedCallsAreRepeated(t *testing.T) {
	t.Parallel()
	d := Deadlines{}.withDefaults()
	const query, store, execute, idle = time.Minute, 10 * time.Minute, 4 * time.Hour, 10 * time.Minute
	for method, want := range map[string]call{
		backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName:                 {kind: "BackupItemAction", name: "AppliesTo", constant: true, idempotent: true, limit: query},
		backupitemactionv1.BackupItemAction_Execute_FullMethodName:                   {kind: "BackupItemAction", name: "Execute", work: true, limit: execute},
		backupitemactionv2.BackupItemAction_Execute_FullMethodName:                   {kind: "BackupItemAction", name: "Execute", work: true, limit: execute},
		backupitemactionv2.BackupItemAction_Progress_FullMethodName:                  {kind: "BackupItemAction", name: "Progress", idempotent: true, limit: query},
		backupitemactionv2.BackupItemAction_Cancel_FullMethodName:                    {kind: "BackupItemAction", name: "Cancel", limit: query},
		asyncbackupitemactionv1.AsyncBackupItemActionService_Start_FullMethodName:    {kind: "AsyncBackupItemAction", name: "Start", idempotent: true, work: true, limit: execute},
		restoreitemactionv2.RestoreItemAction_AreAdditionalItemsReady_FullMethodName: {kind: "RestoreItemAction", name: "AreAdditionalItemsReady", idempotent: true, limit: query},
		restoreitemactionv2.RestoreItemAction_Execute_FullMethodName:                 {kind: "RestoreItemAction", name: "Execute", work: true, alone: true, limit: execute},
		itemblockactionv1.ItemBlockAction_GetRelatedItems_FullMethodName:             {kind: "ItemBlockAction", name: "GetRelatedItems", work: true, limit: execute},
		objectstorev1.ObjectStore_Init_FullMethodName:                                {kind: "ObjectStore", name: "Init", limit: store},
		objectstorev1.ObjectStore_PutObject_FullMethodName:                           {kind: "ObjectStore", name: "PutObject", work: true, limit: execute},
		objectstorev1.ObjectStore_ObjectExists_FullMethodName:                        {kind: "ObjectStore", name: "ObjectExists", idempotent: true, work: true, limit: store},
		objectstorev1.ObjectStore_DeleteObject_FullMethodName:                        {kind: "ObjectStore", name: "DeleteObject", work: true, limit: store},
		queueadmissionv1.QueueAdmissionService_Decide_FullMethodName:                 {kind: "QueueAdmission", name: "Decide", idempotent: true, work: true, limit: query},
		loadsoothingv1.LoadSoothingService_Admit_FullMethodName:                      {kind: "LoadSoothing", name: "Admit", idempotent: true, work: true, limit: query},
		manifestwriterv1.ManifestWriterService_Write_FullMethodName:                  {kind: "ManifestWriter", name: "Write", work: true, limit: execute},
		pluginlisterv1.PluginLister_ListPlugins_FullMethodName:                       {kind: "PluginLister", name: "ListPlugins", idempotent: true, limit: query},
		plugininfov1.PluginInfoService_GetPluginInfo_FullMethodName:                  {kind: "PluginInfo", name: "GetPluginInfo", idempotent: true, limit: query},
		"/from.the.Future/Unheard":                                                   {kind: "Future", name: "Unheard", work: true, limit: execute},
	} {
		want.idle = idle
		require.Equal(t, want, d.classify(method), method)
	}
}

func TestAKindsDeadlineBoundsItsWorkAndNothingElse(t *testing.T) {
	t.Parallel()
	d := Deadlines{Query: time.Second, Kinds: map[string]time.Duration{
		"BackupItemAction": 2 * time.Second, "QueueAdmission": 3 * time.Second, "ManifestWriter": 4 * time.Second, "ObjectStore": -1, "LoadSoothing": 0,
	}}.withDefaults()
	for method, want := range map[string]time.Duration{
		backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName:              time.Second,
		backupitemactionv1.BackupItemAction_Execute_FullMethodName:                2 * time.Second,
		backupitemactionv2.BackupItemAction_Execute_FullMethodName:                2 * time.Second,
		backupitemactionv2.BackupItemAction_Progress_FullMethodName:               time.Second,
		asyncbackupitemactionv1.AsyncBackupItemActionService_Start_FullMethodName: 4 * time.Hour,
		queueadmissionv1.QueueAdmissionService_Decide_FullMethodName:              3 * time.Second,
		loadsoothingv1.LoadSoothingService_Admit_FullMethodName:                   time.Second,
		objectstorev1.ObjectStore_ListObjects_FullMethodName:                      -1,
		objectstorev1.ObjectStore_Init_FullMethodName:                             10 * time.Minute,
	} {
		require.Equal(t, want, d.classify(method).limit, method)
	}
	require.Equal(t, 4*time.Second, d.classify(manifestwriterv1.ManifestWriterService_Write_FullMethodName).idle)
	require.Equal(t, 10*time.Minute, d.classify("/from.the.Future/Stream").idle)
}

func TestACallerCanHaveADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	const method = "/cleat.queueadmission.v1.QueueAdmissionService/Decide"
	d := Deadlines{Kinds: map[string]time.Duration{"QueueAdmission": time.Hour}}.withDefaults()
	require.Equal(t, time.Hour, d.classify(method).within(t.Context()).limit)
	own := d.classify(method).within(WithDeadline(t.Context(), time.Second))
	require.Equal(t, time.Second, own.limit)
	require.Equal(t, time.Second, own.idle)
}
