package claims_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/claims"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
)

const full = `{"apiVersion":"v1","kind":"PersistentVolumeClaim",
	"metadata":{"namespace":"shop","name":"data","labels":{"app":"web","velero.io/restore-name":"r"},"annotations":{
		"pv.kubernetes.io/bind-completed":"yes","mine":"x"}},
	"spec":{"volumeName":"pv-1","storageClassName":"","selector":{"matchLabels":{"velero.io/a":"b"}},
		"dataSource":{"kind":"VolumeSnapshot"},"dataSourceRef":{"kind":"VolumeSnapshot"}},
	"status":{"phase":"Bound"}}`

var volume = []framework.ResourceIdentifier{{Resource: "persistentvolumes", Name: "pv-1"}}

// bound returns a claim with a volume. labels and spec are JSON members without braces.
func bound(labels, spec string) string {
	metadata := `{"namespace":"shop","name":"data"`
	if labels != "" {
		metadata += `,"labels":{` + labels + `}`
	}
	if spec != "" {
		spec = "," + spec
	}
	return `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":` + metadata +
		`},"spec":{"volumeName":"pv-1"` + spec + `},"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`
}

func TestBoundClaimIsBackedUpWithItsVolumeAndWithoutLeftovers(t *testing.T) {
	t.Parallel()
	action, err := claims.NewBackup(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, selector)
	long := strings.Repeat("n", 70)
	for name, row := range map[string]actiontest.Backup{
		"as it came": {Item: bound("", ""), Additional: volume},
		"sources go": {
			Item: bound("", `"dataSource":{"kind":"VolumeSnapshot","name":"s"},"dataSourceRef":{"kind":"VolumeSnapshot","name":"s"}`),
			Want: bound("", ""), Additional: volume,
		},
		"the selector goes with a class": {
			Item: bound("", `"storageClassName":"fast","selector":{"matchLabels":{"a":"b"}}`),
			Want: bound("", `"storageClassName":"fast"`), Additional: volume,
		},
		"the selector goes with the default class": {
			Item: bound("", `"selector":{"matchLabels":{"a":"b"}}`), Want: bound("", ""), Additional: volume,
		},
		"the selector goes with a class of null": {
			Item: bound("", `"storageClassName":null,"selector":{}`), Want: bound("", `"storageClassName":null`),
			Additional: volume,
		},
		"the selector stays with the empty class, without our labels": {
			Item: bound("", `"storageClassName":"","selector":{"matchLabels":{"a":"b","velero.io/dynamic-pv-restore":"x"}}`),
			Want: bound("", `"storageClassName":"","selector":{"matchLabels":{"a":"b"}}`), Additional: volume,
		},
		"labels of earlier restores go": {
			Item: bound(`"app":"web","velero.io/restore-name":"r","velero.io/volume-snapshot-name":"s","backup.velero.io/must-include-additional-items":"true","velero.io/backup-name":"older"`, ""),
			Want: bound(`"app":"web"`, ""), Additional: volume,
		},
		"the label of this backup stays": {
			Item: bound(`"velero.io/backup-name":"nightly"`, ""), Backup: "nightly", Additional: volume,
		},
		"the label of this backup stays when its name is long": {
			Item: bound(`"velero.io/backup-name":"`+velerov1.ValidLabelValue(long)+`"`, ""), Backup: long, Additional: volume,
		},
		"not bound":        {Item: strings.Replace(full, "Bound", "Pending", 1)},
		"bound to nothing": {Item: strings.Replace(full, "pv-1", "", 1)},
		"no status":        {Item: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"volumeName":"pv-1"}}`},
		"phase is not a string": {Item: strings.Replace(full, `"Bound"`, `1`, 1),
			Err: "status.phase is a number, want a string"},
		"a label is a number": {Item: bound(`"app":7`, ""), Err: "metadata.labels.app is a number, want a string"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.BackupShapes(t, action, full)
}

func TestRestoredClaimIsUnboundAndFollowsItsVolume(t *testing.T) {
	t.Parallel()
	action, err := claims.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	claim := func(annotations string) string {
		return `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"data"` +
			annotations + `},"spec":{"volumeName":"pv-1"}}`
	}
	for name, row := range map[string]actiontest.Restore{
		"annotations of binding go": {
			Item: claim(`,"annotations":{"mine":"x","pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes",
				"volume.kubernetes.io/storage-provisioner":"p","volume.beta.kubernetes.io/storage-provisioner":"p",
				"volume.kubernetes.io/selected-node":"n","velero.io/volume-snapshot-name":"s","velero.io/data-upload-name":"d"}`),
			FromBackup: bound("", ""),
			Want:       claim(`,"annotations":{"mine":"x"}`), Additional: volume,
		},
		"the last annotation": {
			Item:       claim(`,"annotations":{"pv.kubernetes.io/bind-completed":"yes"}`),
			FromBackup: strings.Replace(full, "Bound", "Lost", 1), Want: claim(""),
		},
		"nothing to remove": {Item: claim(""), FromBackup: bound("", ""), Additional: volume},
		"never bound":       {Item: claim(""), FromBackup: strings.Replace(full, "Bound", "Pending", 1)},
		"the annotations foreign": {Item: claim(`,"annotations":["x"]`),
			Err: "metadata.annotations is a list, want an object"},
		"the backup's foreign": {Item: claim(""), FromBackup: strings.Replace(full, `{"phase":"Bound"}`, `"Bound"`, 1),
			Err: "status is a string, want an object"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, full, velerov1.RestoreSpec{})
}
