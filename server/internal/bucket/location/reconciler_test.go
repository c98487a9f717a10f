package location_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
)

const (
	available   = velerov1.BackupStorageLocationPhaseAvailable
	unavailable = velerov1.BackupStorageLocationPhaseUnavailable
)

func TestStatusFollowsBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "status-follows-the-bucket")
	spec, bucket := files(t, filestore.Name, t.TempDir())
	spec.ValidationFrequency = &metav1.Duration{Duration: time.Second}
	created := w.location(t, "files", spec)
	w.run(t, nil)

	l := w.awaitLocation(t, "files", phase(available))
	require.NotNil(t, l.Status.LastValidationTime)
	require.Empty(t, l.Status.Message)
	require.Equal(t, created.Spec, l.Spec, "the spec must not be changed")

	require.NoError(t, os.Rename(bucket, bucket+".away"))
	l = w.awaitLocation(t, "files", phase(unavailable))
	require.Contains(t, l.Status.Message, `BackupStorageLocation "files" is unavailable: `)
	require.Contains(t, l.Status.Message, "there is no directory "+bucket)

	require.NoError(t, os.Rename(bucket+".away", bucket))
	l = w.awaitLocation(t, "files", phase(available))
	require.Empty(t, l.Status.Message)

	require.NoError(t, os.MkdirAll(filepath.Join(bucket, "photos"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bucket, "photos", "x"), nil, 0o600))
	l = w.awaitLocation(t, "files", phase(unavailable))
	require.Contains(t, l.Status.Message, "Backup store contains invalid top-level directories: [photos]")
}

// A location that something waits for is validated again before it is due, at a limited pace.
func TestRequestedValidation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "requested-validation")
	spec, bucket := files(t, filestore.Name, t.TempDir())
	spec.ValidationFrequency = &metav1.Duration{} // no repeated validation
	require.NoError(t, os.Rename(bucket, bucket+".away"))
	w.location(t, "files", spec)
	var validations atomic.Int32
	var reconciler *location.Reconciler
	w.run(t, func(r *location.Reconciler) {
		reconciler = r
		r.AskPause = time.Second
		r.Observe = func(string, bool) { validations.Add(1) }
	})
	w.awaitLocation(t, "files", phase(unavailable))
	began := time.Now()
	require.NoError(t, os.Rename(bucket+".away", bucket))
	require.Eventually(t, func() bool {
		reconciler.Ask(client.ObjectKey{Namespace: w.namespace, Name: "files"})
		l := new(velerov1.BackupStorageLocation)
		require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "files"}, l))
		return l.Status.Phase == available
	}, waitFor, tick)
	require.LessOrEqual(t, int(validations.Load()), 3+int(time.Since(began)/time.Second), "however often it is asked")
}

func TestChangedSpecIsValidatedImmediately(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "changed-spec")
	spec, _ := files(t, filestore.Name, t.TempDir())
	spec.ValidationFrequency = &metav1.Duration{} // no repeated validation
	w.location(t, "files", spec)
	var validations atomic.Int32
	w.run(t, func(r *location.Reconciler) {
		r.Observe = func(string, bool) { validations.Add(1) }
	})
	l := w.awaitLocation(t, "files", phase(available))
	require.EqualValues(t, 1, validations.Load())

	before := l.DeepCopy()
	l.Spec.ObjectStorage.Bucket = "elsewhere"
	require.NoError(t, w.client.Patch(t.Context(), l, client.MergeFrom(before)))
	l = w.awaitLocation(t, "files", phase(unavailable))
	require.Contains(t, l.Status.Message, "elsewhere")
	require.EqualValues(t, 2, validations.Load(), "one validation per change, none for a change of the status")
}

func TestOneLocationIsDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "one-default")
	root := t.TempDir()
	spec, _ := files(t, filestore.Name, root)
	w.location(t, "preferred", spec)
	w.run(t, func(r *location.Reconciler) { r.DefaultLocation = "preferred" })
	marked := func(l *velerov1.BackupStorageLocation) bool { return l.Spec.Default }
	w.awaitLocation(t, "preferred", marked)

	spec, _ = files(t, filestore.Name, root)
	spec.Default = true
	// Creation times are in seconds; equal ones are ordered by name.
	w.location(t, "zz-newer", spec)
	l := w.awaitLocation(t, "preferred", func(l *velerov1.BackupStorageLocation) bool { return !l.Spec.Default })
	require.Equal(t, root, l.Spec.Config["path"], "nothing else may be changed")
	w.awaitLocation(t, "zz-newer", func(l *velerov1.BackupStorageLocation) bool {
		return l.Spec.Default && l.Status.Phase == available
	})
}

func TestDeletedLocationIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plane.Get(t), "deleted-location")
	spec := w.s3(t, w.cluster.NewBucket(t, "deleted"))
	dir := filepath.Join(t.TempDir(), "credentials")
	w.opener = location.NewOpener(w.client, location.PluginHost{Host: w.host}, dir, hclog.NewNullLogger())
	l := w.location(t, "s3", spec)
	marker := w.location(t, "next", spec)
	w.run(t, nil)
	w.awaitLocation(t, "s3", phase(available))
	w.awaitLocation(t, "next", phase(available))
	require.DirExists(t, filepath.Join(dir, w.namespace, "s3"))

	require.NoError(t, w.client.Delete(t.Context(), l))
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, w.namespace, "s3"))
		return os.IsNotExist(err)
	}, waitFor, tick)
	require.DirExists(t, filepath.Join(dir, w.namespace, marker.Name))
}
