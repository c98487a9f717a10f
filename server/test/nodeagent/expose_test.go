package nodeagent_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/csisnapshots"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/node/expose"
	"github.com/cleat-dev/cleat/server/internal/node/settings"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/csidriver"
)

var errKilled = errors.New("the agent was killed")

// mortal is the connection of an agent to the API server. The agent is killed after some writes: the last one arrives,
// and its reply is lost.
type mortal struct {
	next http.RoundTripper
	life *life
}

// life is the life of an agent. It ends after some writes.
type life struct {
	context.Context
	writes atomic.Int64 // the remaining ones
	end    context.CancelFunc
}

func (l *life) ended() bool { return l.writes.Load() <= 0 }

func (m mortal) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		if m.life.ended() {
			return nil, errKilled
		}
		return m.next.RoundTrip(request)
	}
	left := m.life.writes.Add(-1)
	if left < 0 {
		return nil, errKilled
	}
	response, err := m.next.RoundTrip(request)
	if left == 0 && err == nil {
		_ = response.Body.Close()
		m.life.end() // so that no caller waits for the API server to come back
		err = errKilled
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// exposers returns the exposers of an agent, which is killed after some writes.
func (v *volumeSite) exposers(writes int64) (uploads, downloads node.Exposer, of *life) {
	v.t.Helper()
	of = new(life)
	of.Context, of.end = context.WithCancel(v.t.Context())
	v.t.Cleanup(of.end)
	of.writes.Store(writes)
	config := rest.CopyConfig(v.rest)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{next, of} })
	c, err := client.New(config, client.Options{Scheme: v.client.Scheme()})
	require.NoError(v.t, err)
	volumes := &expose.Volumes{
		Cluster: &run.Cluster{Client: c, Live: c, Namespace: v.namespace}, Settings: new(settings.Settings),
		Agent:     v.agentPod(v.nodes[0]),
		Snapshots: csisnapshots.New(config, nil, nil, "", nil),
	}
	return expose.Uploads{Volumes: volumes}, expose.Downloads{Volumes: volumes}, of
}

// immortal is a number of writes that no agent reaches.
const immortal = 1 << 40

// settle repeats a call until it is done, or the agent is killed.
func (v *volumeSite) settle(what string, of *life, call func(context.Context) error) error {
	v.t.Helper()
	var last error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(controlplane.Pause(began)) {
		err := call(of)
		final, ends := errors.AsType[*node.Final](err)
		switch {
		case of.ended():
			return errKilled
		case err == nil:
			return nil
		case ends:
			return final
		}
		last = err
	}
	require.Fail(v.t, "not in time: "+what, "%v", last)
	return nil
}

// taken creates a VolumeSnapshot of a claim, and a DataUpload of it.
func (v *volumeSite) taken(name, claim string) *velerov2alpha1.DataUpload {
	v.t.Helper()
	v.take(name, claim, "chosen")
	upload := v.uploadOf(name, claim)
	v.create(upload)
	return upload
}

// take creates a VolumeSnapshot of a claim.
func (v *volumeSite) take(name, claim, class string) *snapshotv1.VolumeSnapshot {
	v.t.Helper()
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: name, Labels: map[string]string{
			velerov1.BackupUIDLabel: string(v.owning(false).GetUID()), velerov1.AsyncOperationIDLabel: operationOf(name),
		}},
		Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim},
			VolumeSnapshotClassName: &class},
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), vs))
	return vs
}

// operationOf returns the operation of the DataUpload of a snapshot.
func operationOf(snapshot string) string { return "operation-of-" + snapshot }

// uploadOf returns a DataUpload of the snapshot of a claim, which has the same name.
func (v *volumeSite) uploadOf(name, claim string) *velerov2alpha1.DataUpload {
	upload := v.upload(name)
	upload.Labels = map[string]string{velerov1.AsyncOperationIDLabel: operationOf(name)}
	upload.Spec.SourceNamespace, upload.Spec.SourcePVC = v.shop, claim
	upload.Spec.CSISnapshot = &velerov2alpha1.CSISnapshotSpec{VolumeSnapshot: name, StorageClass: csidriver.StorageClass}
	return upload
}

// downloadOf returns a DataDownload of a snapshot into the claim of the same name.
func (v *volumeSite) downloadOf(name, snapshot string) *velerov2alpha1.DataDownload {
	download := v.download(name, snapshot)
	download.Spec.TargetVolume = velerov2alpha1.TargetVolumeSpec{PVC: name, Namespace: v.shop}
	return download
}

// csiUploadsOfKilledAgents kills the agent that exposes a snapshot after each of its writes. Another one continues, or
// gives up.
func csiUploadsOfKilledAgents(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t, 1)
	v.claim("data", corev1.PersistentVolumeFilesystem)
	require.NoError(t, os.WriteFile(filepath.Join(v.dir(v.shop, "data"), "data"), []byte("before"), 0o600))
	afterEachWrite(func(writes int64, goOn bool) (used int64) {
		upload := v.taken(fmt.Sprintf("u%d-%t", writes, goOn), "data")
		mortal, _, left := v.exposers(writes)
		_ = v.settle("it is exposed or killed", left, func(ctx context.Context) error { return mortal.Expose(ctx, upload) })
		used = writes - left.writes.Load()
		next, _, left := v.exposers(immortal)
		if goOn {
			require.NoError(t, v.settle("it is exposed", left,
				func(ctx context.Context) error { return next.Expose(ctx, upload) }))
			pv := v.volume(v.namespace, upload.Name)
			data, err := os.ReadFile(filepath.Join(v.plane.disks.Volume(pv.Spec.CSI.VolumeHandle), "data"))
			require.NoError(t, err)
			require.Equal(t, "before", string(data))
			// The clean-up is killed, too.
			mortal, _, left := v.exposers(writes + 1)
			_ = v.settle("it is released or killed", left,
				func(ctx context.Context) error { return mortal.Release(ctx, upload, true) })
		}
		require.NoError(t, v.settle("it is released", left,
			func(ctx context.Context) error { return next.Release(ctx, upload, false) }))
		return used
	})
	v.leavesNothing(v.shop, "data")
}

// afterEachWrite calls attempt with the number of writes after which the agent is killed, for each number that the
// agent reaches, concurrently.
func afterEachWrite(attempt func(writes int64, other bool) (used int64)) {
	used := attempt(immortal, false)
	var all sync.WaitGroup
	for writes := range used {
		for _, other := range []bool{false, true} {
			all.Go(func() { attempt(writes+1, other) })
		}
	}
	all.Wait()
}

// csiDownloadsOfKilledAgents kills the agent that exposes a volume for a restore, and hands it over, after each of its
// writes.
func csiDownloadsOfKilledAgents(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t, 1)
	afterEachWrite(func(writes int64, deleted bool) (used int64) {
		name := fmt.Sprintf("d%d-%t", writes, deleted)
		target := v.target(name, csidriver.StorageClass)
		download := v.downloadOf(name, "snapshot")
		v.create(download)
		_, next, alive := v.exposers(immortal)
		_, mortal, left := v.exposers(writes)
		err := v.settle("it is exposed or killed", left,
			func(ctx context.Context) error { return mortal.Expose(ctx, download) })
		killed := errors.Is(err, errKilled)
		if killed {
			require.NoError(t, v.settle("it is exposed", alive,
				func(ctx context.Context) error { return next.Expose(ctx, download) }))
		}
		filled := v.volume(v.namespace, name)
		require.NoError(t, os.WriteFile(filepath.Join(v.plane.disks.Volume(filled.Spec.CSI.VolumeHandle), "data"),
			[]byte("restored"), 0o600))
		if !killed {
			_ = v.settle("it is handed over or killed", left,
				func(ctx context.Context) error { return mortal.Release(ctx, download, true) })
		}
		used = writes - left.writes.Load()
		moved, err := next.Moved(t.Context(), download)
		require.NoError(t, err)
		if deleted {
			require.NoError(t, v.client.Delete(t.Context(), target))
			v.eventually("the target is gone", func() (bool, error) {
				err := v.client.Get(t.Context(), client.ObjectKeyFromObject(target), target)
				return err != nil, client.IgnoreNotFound(err)
			})
			err := v.settle("it is handed over or ends", alive,
				func(ctx context.Context) error { return next.Release(ctx, download, moved) })
			if err != nil {
				require.ErrorContains(t, err, "was deleted")
				require.NoError(t, v.settle("it is released", alive,
					func(ctx context.Context) error { return next.Release(ctx, download, false) }))
			}
			return used
		}
		require.NoError(t, v.settle("it is handed over", alive,
			func(ctx context.Context) error { return next.Release(ctx, download, true) }))
		require.NoError(t, v.settle("that can be repeated", alive,
			func(ctx context.Context) error { return next.Release(ctx, download, false) }))
		pv := v.volume(v.shop, name)
		require.Equal(t, filled.Name, pv.Name)
		require.Equal(t, corev1.PersistentVolumeReclaimDelete, pv.Spec.PersistentVolumeReclaimPolicy)
		require.Equal(t, target.Spec.Selector.MatchLabels[velerov1.DynamicPVRestoreLabel],
			pv.Labels[velerov1.DynamicPVRestoreLabel])
		data, err := os.ReadFile(filepath.Join(v.plane.disks.Volume(pv.Spec.CSI.VolumeHandle), "data"))
		require.NoError(t, err)
		require.Equal(t, "restored", string(data))
		return used
	})
	v.claim("other", corev1.PersistentVolumeFilesystem)
	v.leavesNothing(v.shop, "other")
}

// target creates a claim that waits for a volume with data, in the form in which restores leave it.
func (v *volumeSite) target(name, class string) *corev1.PersistentVolumeClaim {
	v.t.Helper()
	mode := corev1.PersistentVolumeFilesystem
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &class, VolumeMode: &mode,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": oneGi}},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{velerov1.DynamicPVRestoreLabel: v.shop + "." +
				name}},
		},
	}
	require.NoError(v.t, v.client.Create(v.t.Context(), claim))
	return claim
}
