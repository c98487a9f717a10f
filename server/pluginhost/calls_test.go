package pluginhost

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
)

func TestOnlyDocumentedCallsAreRepeated(t *testing.T) {
	t.Parallel()
	d := Deadlines{}.withDefaults()
	for method, want := range map[string]call{
		backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName: {"AppliesTo", true, false, false, time.Minute},
		backupitemactionv1.BackupItemAction_Execute_FullMethodName:   {"Execute", false, true, false, 4 * time.Hour},
		pluginlisterv1.PluginLister_ListPlugins_FullMethodName:       {"ListPlugins", true, false, false, time.Minute},
		objectstorev1.ObjectStore_Init_FullMethodName:                {"Init", false, false, false, 10 * time.Minute},
		objectstorev1.ObjectStore_PutObject_FullMethodName:           {"PutObject", false, true, false, 4 * time.Hour},
		objectstorev1.ObjectStore_ObjectExists_FullMethodName:        {"ObjectExists", true, true, false, 10 * time.Minute},
		objectstorev1.ObjectStore_DeleteObject_FullMethodName:        {"DeleteObject", false, true, false, 10 * time.Minute},
		"/v2.BackupItemAction/Progress":                              {"Progress", true, false, false, time.Minute},
		"/v2.BackupItemAction/Cancel":                                {"Cancel", false, false, false, time.Minute},
		"/v2.RestoreItemAction/AreAdditionalItemsReady":              {"AreAdditionalItemsReady", true, false, false, time.Minute},
		"/v2.RestoreItemAction/Execute":                              {"Execute", false, true, true, 4 * time.Hour},
		"/from.the.Future/Unheard":                                   {"Unheard", false, true, false, 4 * time.Hour},
	} {
		require.Equal(t, want, d.classify(method), method)
	}
}
