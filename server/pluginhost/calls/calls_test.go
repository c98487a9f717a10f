package calls

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
	d := Deadlines{}.WithDefaults()
	const query, store, execute, idle = time.Minute, 10 * time.Minute, 4 * time.Hour, 10 * time.Minute
	for method, want := range map[string]Call{
		backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName:                 {kind: "BackupItemAction", Name: "AppliesTo", Constant: true, Idempotent: true, limit: query},
		backupitemactionv1.BackupItemAction_Execute_FullMethodName:                   {kind: "BackupItemAction", Name: "Execute", Work: true, limit: execute},
		backupitemactionv2.BackupItemAction_Execute_FullMethodName:                   {kind: "BackupItemAction", Name: "Execute", Work: true, limit: execute},
		backupitemactionv2.BackupItemAction_Progress_FullMethodName:                  {kind: "BackupItemAction", Name: "Progress", Idempotent: true, limit: query},
		backupitemactionv2.BackupItemAction_Cancel_FullMethodName:                    {kind: "BackupItemAction", Name: "Cancel", limit: query},
		asyncbackupitemactionv1.AsyncBackupItemActionService_Start_FullMethodName:    {kind: "AsyncBackupItemAction", Name: "Start", Idempotent: true, Work: true, limit: execute},
		restoreitemactionv2.RestoreItemAction_AreAdditionalItemsReady_FullMethodName: {kind: "RestoreItemAction", Name: "AreAdditionalItemsReady", Idempotent: true, limit: query},
		restoreitemactionv2.RestoreItemAction_Execute_FullMethodName:                 {kind: "RestoreItemAction", Name: "Execute", Work: true, Alone: true, limit: execute},
		itemblockactionv1.ItemBlockAction_GetRelatedItems_FullMethodName:             {kind: "ItemBlockAction", Name: "GetRelatedItems", Work: true, limit: execute},
		objectstorev1.ObjectStore_Init_FullMethodName:                                {kind: "ObjectStore", Name: "Init", limit: store},
		objectstorev1.ObjectStore_PutObject_FullMethodName:                           {kind: "ObjectStore", Name: "PutObject", Work: true, limit: execute},
		objectstorev1.ObjectStore_ObjectExists_FullMethodName:                        {kind: "ObjectStore", Name: "ObjectExists", Idempotent: true, Work: true, limit: store},
		objectstorev1.ObjectStore_DeleteObject_FullMethodName:                        {kind: "ObjectStore", Name: "DeleteObject", Work: true, limit: store},
		queueadmissionv1.QueueAdmissionService_Decide_FullMethodName:                 {kind: "QueueAdmission", Name: "Decide", Idempotent: true, Work: true, limit: query},
		loadsoothingv1.LoadSoothingService_Admit_FullMethodName:                      {kind: "LoadSoothing", Name: "Admit", Idempotent: true, Work: true, limit: query},
		manifestwriterv1.ManifestWriterService_Write_FullMethodName:                  {kind: "ManifestWriter", Name: "Write", Work: true, limit: execute},
		pluginlisterv1.PluginLister_ListPlugins_FullMethodName:                       {kind: "PluginLister", Name: "ListPlugins", Idempotent: true, limit: query},
		plugininfov1.PluginInfoService_GetPluginInfo_FullMethodName:                  {kind: "PluginInfo", Name: "GetPluginInfo", Idempotent: true, limit: query},
		"/from.the.Future/Unheard":                                                   {kind: "Future", Name: "Unheard", Work: true, limit: execute},
	} {
		want.Idle = idle
		require.Equal(t, want, d.Classify(method), method)
	}
}

func TestAKindsDeadlineBoundsItsWorkAndNothingElse(t *testing.T) {
	t.Parallel()
	d := Deadlines{Query: time.Second, Kinds: map[string]time.Duration{
		"BackupItemAction": 2 * time.Second, "QueueAdmission": 3 * time.Second, "ManifestWriter": 4 * time.Second, "ObjectStore": -1, "LoadSoothing": 0,
	}}.WithDefaults()
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
		require.Equal(t, want, d.Classify(method).limit, method)
	}
	require.Equal(t, 4*time.Second, d.Classify(manifestwriterv1.ManifestWriterService_Write_FullMethodName).Idle)
	require.Equal(t, 10*time.Minute, d.Classify("/from.the.Future/Stream").Idle)
}

func TestACallerCanHaveADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	const method = "/cleat.queueadmission.v1.QueueAdmissionService/Decide"
	d := Deadlines{Kinds: map[string]time.Duration{"QueueAdmission": time.Hour}}.WithDefaults()
	require.Equal(t, time.Hour, d.Classify(method).Within(t.Context()).limit)
	own := d.Classify(method).Within(WithDeadline(t.Context(), time.Second))
	require.Equal(t, time.Second, own.limit)
	require.Equal(t, time.Second, own.Idle)
}
