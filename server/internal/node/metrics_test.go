package node

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
)

func TestMetricsHaveVelerosNames(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry, "n1", 3)
	require.NoError(t, err)
	began := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	backup := &velerov1.PodVolumeBackup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "velero", Name: "b-1", CreationTimestamp: metav1.NewTime(began),
			OwnerReferences: []metav1.OwnerReference{{Name: "b", Controller: new(true)}},
		},
		Spec: velerov1.PodVolumeBackupSpec{
			BackupStorageLocation: "default", UploaderType: velerov1.RepositoryTypeRestic, Pod: velerov1.ObjectReference{
				Namespace: "shop",
			},
		},
	}
	m.accept(newLoad(podVolumeBackups(), backup), began.Add(2*time.Second))
	backup.Status.Phase = velerov1.LoadPhaseCompleted
	backup.Status.StartTimestamp, backup.Status.CompletionTimestamp = new(metav1.NewTime(began)),
		new(metav1.NewTime(began.Add(90*time.Second)))
	m.end(newLoad(podVolumeBackups(), backup))
	upload := &velerov2alpha1.DataUpload{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "u"}}
	for _, phase := range []velerov1.LoadPhase{velerov1.LoadPhaseFailed, velerov1.LoadPhaseCanceled,
		velerov1.LoadPhaseCanceled} {
		upload.Status.Phase = phase
		m.end(newLoad(dataUploads(), upload))
	}
	m.move(2)
	m.wait(kinds(), map[string]int{"DataUpload": 7})
	values := func() map[string]float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		values := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				name := family.GetName()
				for _, label := range metric.GetLabel() {
					name += " " + label.GetName() + "=" + label.GetValue()
				}
				values[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetHistogram().GetSampleSum()
			}
		}
		return values
	}
	const one = " backupName=velero/b node=n1 operation=b-1-default-shop-restic-backup pod_volume_backup=b-1"
	want := map[string]float64{
		"podVolume_pod_volume_backup_enqueue_count node=n1":           1,
		"podVolume_pod_volume_backup_dequeue_count node=n1":           1,
		"podVolume_pod_volume_operation_latency_seconds" + one:        90,
		"podVolume_pod_volume_operation_latency_seconds_gauge" + one:  90,
		"podVolume_data_upload_success_total node=n1":                 0,
		"podVolume_data_upload_failure_total node=n1":                 1,
		"podVolume_data_upload_cancel_total node=n1":                  2,
		"podVolume_data_download_success_total node=n1":               0,
		"podVolume_data_download_failure_total node=n1":               0,
		"podVolume_data_download_cancel_total node=n1":                0,
		"cleat_load_ended_total kind=PodVolumeBackup phase=Completed": 1,
		"cleat_load_ended_total kind=DataUpload phase=Failed":         1,
		"cleat_load_ended_total kind=DataUpload phase=Canceled":       2,
		"cleat_load_wait_seconds kind=PodVolumeBackup":                2,
		"cleat_load_waiting kind=PodVolumeBackup":                     0,
		"cleat_load_waiting kind=PodVolumeRestore":                    0,
		"cleat_load_waiting kind=DataUpload":                          7,
		"cleat_load_waiting kind=DataDownload":                        0,
		"cleat_load_moving":                                           2,
		"cleat_load_limit":                                            3,
	}
	require.Equal(t, want, values())
	m.forget(podVolumeBackups(), "b-1")
	delete(want, "podVolume_pod_volume_operation_latency_seconds"+one)
	delete(want, "podVolume_pod_volume_operation_latency_seconds_gauge"+one)
	require.Equal(t, want, values())
}
