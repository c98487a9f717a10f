package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

func TestBackupsNameTheirSourceAndTags(t *testing.T) {
	t.Parallel()
	inPod := &velerov1.PodVolumeBackup{Spec: velerov1.PodVolumeBackupSpec{
		Pod: velerov1.ObjectReference{Namespace: "shop", Name: "web-0"}, Volume: "data",
		Tags: map[string]string{"backup": "nightly"},
	}}
	of := newLoad(podVolumeBackups(), inPod).spec
	require.Equal(t, datamover.Source{Requester: "snapshot-pod-volume", Namespace: "shop", Pod: "web-0", Volume: "data"},
		of.source)
	require.Equal(t, map[string]string{"backup": "nightly"}, of.tags)
	inPod.Annotations = map[string]string{"velero.io/pvc-name": "data-web-0"}
	require.Equal(t, "data-web-0", newLoad(podVolumeBackups(), inPod).spec.source.Claim)

	controls := true
	upload := &velerov2alpha1.DataUpload{
		ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{"velero.io/async-operation-id": "du-1"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Backup", Name: "nightly", UID: "b-1", Controller: &controls}},
		},
		Spec: velerov2alpha1.DataUploadSpec{SourceNamespace: "shop", SourcePVC: "data-web-0"},
	}
	of = newLoad(dataUploads(), upload).spec
	require.Equal(t, datamover.Source{Requester: "snapshot-data-upload-download", Namespace: "shop", Claim: "data-web-0"},
		of.source)
	require.Equal(t, map[string]string{"velero.io/async-operation-id": "du-1", "backup": "nightly", "backup-uid": "b-1"},
		of.tags)
}
