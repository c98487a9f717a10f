package backupsync

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// bucket is a read-only object store in memory.
type bucket struct {
	objectstore.Store
	onList func()

	mu      sync.Mutex
	objects map[string][]byte
	reads   int
	asked   []string // keys whose existence was checked
}

func (b *bucket) Open(context.Context, *velerov1.BackupStorageLocation) (*store.Store, error) {
	return store.New(b, "bucket", ""), nil
}

func (b *bucket) ListCommonPrefixes(_ context.Context, _, prefix, _ string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.onList != nil {
		defer b.onList() // mu is held
	}
	seen := map[string]bool{}
	var prefixes []string
	for key := range b.objects {
		name, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		if !seen[name] {
			seen[name] = true
			prefixes = append(prefixes, prefix+name+"/")
		}
	}
	return prefixes, nil
}

func (b *bucket) ListObjects(_ context.Context, _, prefix string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Keys(b.objects)),
		func(key string) bool { return !strings.HasPrefix(key, prefix) }), nil
}

func (b *bucket) ObjectExists(_ context.Context, _, key string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, key)
	return b.objects[key] != nil, nil
}

func (b *bucket) GetObject(_ context.Context, _, key string) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.objects[key] == nil {
		return nil, errors.New("no such object")
	}
	return io.NopCloser(bytes.NewReader(b.objects[key])), nil
}

func (b *bucket) add(t *testing.T, name string, changes ...func(*velerov1.Backup)) {
	t.Helper()
	stored := controllertest.NewBackup(name, append(changes, controllertest.InPhase(velerov1.BackupPhaseCompleted))...)
	stored.APIVersion, stored.Kind, stored.UID = "velero.io/v1", "Backup", "of-another-cluster"
	content, err := json.Marshal(stored)
	require.NoError(t, err)
	b.objects["backups/"+name+"/velero-backup.json"] = content
}

func (b *bucket) addZipped(t *testing.T, key, content string) {
	t.Helper()
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	_, err := compressed.Write([]byte(content))
	require.NoError(t, errors.Join(err, compressed.Close()))
	b.objects[key] = buffer.Bytes()
}

func newSync(t *testing.T, c *controllertest.Cluster, b *bucket) *Controller {
	t.Helper()
	api, err := kubeapi.New(controllertest.Connect(t).Config, hclog.NewNullLogger(), time.Minute)
	require.NoError(t, err)
	backups := func(ctx context.Context) (cache.Store, error) {
		var list velerov1.BackupList
		found := cache.NewStore(cache.MetaNamespaceKeyFunc)
		err := c.List(ctx, &list, client.InNamespace(c.Namespace))
		for i := range list.Items {
			err = errors.Join(err, found.Add(&list.Items[i]))
		}
		return found, err
	}
	return &Controller{Cluster: c.Cluster, API: api, Stores: b, Backups: backups, Period: time.Minute,
		Log: hclog.NewNullLogger(), Now: time.Now}
}

// failing lets the first requests that create PodVolumeBackups fail.
type failing struct {
	http.RoundTripper
	mu   sync.Mutex
	left int
}

func (f *failing) RoundTrip(request *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/podvolumebackups") {
		if f.left--; f.left >= 0 {
			return nil, errors.New("the server was killed")
		}
	}
	return f.RoundTripper.RoundTrip(request)
}

// TestPodVolumeBackupsAreBrought includes passes that end before all of them are created.
func TestPodVolumeBackupsAreBrought(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t,
		func(next http.RoundTripper) http.RoundTripper { return &failing{RoundTripper: next, left: 2} })
	b := &bucket{objects: map[string][]byte{}}
	b.add(t, "none")
	b.add(t, "damaged")
	b.addZipped(t, "backups/damaged/damaged-podvolumebackups.json.gz", "<html>")
	c.Add(t, controllertest.NewLocation("default"))
	r := newSync(t, c, b)
	_, err := r.Reconcile(t.Context(), c.Request("default"))
	require.NoError(t, err)

	b.add(t, "some")
	b.addZipped(t, "backups/some/some-podvolumebackups.json.gz", `[
		{"metadata":{"name":"some-1","namespace":"old","uid":"x","labels":{"velero.io/backup-uid":"old","velero.io/pod-uid":"p"},"annotations":{"a":"b"}},
		 "spec":{"node":"n","pod":{"name":"p"},"volume":"data","backupStorageLocation":"old","repoIdentifier":""},
		 "status":{"phase":"Completed","snapshotID":"s1"}},
		{"metadata":{"name":"refused"},"spec":{"volume":"a node and a pod are missing"}},
		{"metadata":{"name":"some-2"},"spec":{"node":"n","pod":{},"volume":"logs","repoIdentifier":""},"status":{"phase":"Completed"}}]`)
	r.Now = func() time.Time { return time.Now().Add(time.Hour) }
	for range 2 {
		_, err = r.Reconcile(t.Context(), c.Request("default"))
		require.ErrorContains(t, err, "the server was killed")
		require.Equal(t, "PodVolumeBackups", c.Backup(t, "some").Annotations[incompleteAnnotation])
	}
	r = newSync(t, c, b) // of the next server
	r.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	_, err = r.Reconcile(t.Context(), c.Request("default"))
	require.NoError(t, err)
	brought := c.Backup(t, "some")
	require.Empty(t, brought.Annotations)

	var list velerov1.PodVolumeBackupList
	require.NoError(t, c.List(t.Context(), &list, client.InNamespace(c.Namespace)))
	require.Len(t, list.Items, 2)
	first := list.Items[0]
	require.Equal(t, "some-1", first.GetName())
	require.Equal(t, map[string]string{"velero.io/backup-uid": string(brought.UID), "velero.io/pod-uid": "p"},
		first.GetLabels())
	require.Equal(t, map[string]string{"a": "b"}, first.GetAnnotations())
	require.Equal(t, brought.UID, first.GetOwnerReferences()[0].UID)
	require.Equal(t, velerov1.PodVolumeBackupSpec{
		Node: "n", Pod: velerov1.ObjectReference{Name: "p"}, Volume: "data", BackupStorageLocation: "default",
	}, first.Spec)
	require.Equal(t, velerov1.LoadPhaseCompleted, first.Status.Phase)
	require.Equal(t, "s1", first.Status.SnapshotID)
	require.Empty(t, c.Backup(t, "none").Annotations)
	require.Empty(t, c.Backup(t, "damaged").Annotations)
}

// A first pass lists the files of the bucket once, and checks for PodVolumeBackups only for backups that have ended
// recently.
func TestPodVolumeBackupsOfManyAreListed(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"))
	b := &bucket{objects: map[string][]byte{}}
	endedBefore := func(d time.Duration) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Status.CompletionTimestamp = run.Timestamp(time.Now().Add(-d)) }
	}
	for i := range 2 * manyMissing {
		b.add(t, fmt.Sprintf("old-%03d", i), endedBefore(24*time.Hour))
	}
	const volumes = `[{"metadata":{"name":"v"},"spec":{"node":"n","pod":{},"volume":"logs","repoIdentifier":""},"status":{"phase":"Completed"}}]`
	b.addZipped(t, "backups/old-007/old-007-podvolumebackups.json.gz", volumes)
	b.add(t, "lately", endedBefore(time.Minute))
	_, err := newSync(t, c, b).Reconcile(t.Context(), c.Request("default"))
	require.NoError(t, err)

	var backups velerov1.BackupList
	require.NoError(t, c.List(t.Context(), &backups, client.InNamespace(c.Namespace)))
	require.Len(t, backups.Items, 2*manyMissing+1)
	var brought velerov1.PodVolumeBackupList
	require.NoError(t, c.List(t.Context(), &brought, client.InNamespace(c.Namespace)))
	require.Len(t, brought.Items, 1)
	require.Equal(t, "old-007", brought.Items[0].OwnerReferences[0].Name)
	slices.Sort(b.asked)
	require.Equal(t, []string{
		"backups/lately/lately-podvolumebackups.json.gz", "backups/old-007/old-007-podvolumebackups.json.gz",
	}, slices.Compact(b.asked))
}

// A backup that ends while the bucket is listed is in no listing, although its files exist.
func TestBackupThatEndsDuringTheListingStays(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	ended := func(name string) *velerov1.Backup {
		return controllertest.NewBackup(name, func(b *velerov1.Backup) {
			b.Labels = map[string]string{velerov1.StorageLocationLabel: "default"}
			b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseCompleted
		})
	}
	c.Add(t, controllertest.NewLocation("default"), ended("gone"))
	b := &bucket{objects: map[string][]byte{}}
	b.onList = sync.OnceFunc(func() {
		b.objects["backups/new/velero-backup.json"] = []byte("{}")
		c.Add(t, ended("new"))
	})
	_, err := newSync(t, c, b).Reconcile(t.Context(), c.Request("default"))
	require.NoError(t, err)
	var list velerov1.BackupList
	require.NoError(t, c.List(t.Context(), &list, client.InNamespace(c.Namespace)))
	require.Len(t, list.Items, 1)
	require.Equal(t, "new", list.Items[0].Name)
}

// TestManyDirectoriesWithoutBackup counts the requests and log lines for 5,000 of them in an hour of passes.
func TestManyDirectoriesWithoutBackup(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"))
	const many = 5000
	b := &bucket{objects: map[string][]byte{}}
	for i := range many {
		b.objects[fmt.Sprintf("backups/half-%05d/x", i)] = []byte("x")
	}
	var log bytes.Buffer
	r := newSync(t, c, b)
	r.Log = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Info})
	now := time.Now()
	r.Now = func() time.Time { return now }
	for range 60 {
		_, err := r.Reconcile(t.Context(), c.Request("default"))
		require.NoError(t, err)
		now = now.Add(time.Minute)
	}
	require.Less(t, b.reads, 12*many, "most passes cost the listing only")
	require.Greater(t, b.reads, 6*many, "each is looked at again and again")
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "5000 because it has no velero-backup.json")
	require.Less(t, log.Len(), 500)

	b.add(t, "half-00007")
	now = now.Add(time.Hour)
	_, err := r.Reconcile(t.Context(), c.Request("default"))
	require.NoError(t, err)
	require.Equal(t, velerov1.BackupPhaseCompleted, c.Backup(t, "half-00007").Status.Phase)
	require.Contains(t, log.String(), "4999 because")
}

func TestLocationIsDue(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon()
	ago := func(d time.Duration) *metav1.Time { return run.Timestamp(now.Add(-d)) }
	period := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for name, tt := range map[string]struct {
		last   *metav1.Time
		period *metav1.Duration
		flag   time.Duration
		never  bool
		due    bool
		within time.Duration
	}{
		"never synchronised": {flag: time.Minute, due: true},
		"a minute ago":       {last: ago(time.Minute), flag: time.Minute, due: true},
		"half a minute ago":  {last: ago(30 * time.Second), flag: time.Minute, within: 31 * time.Second},
		"by its own period":  {last: ago(30 * time.Second), period: period(10 * time.Second), flag: time.Minute, due: true},
		"with a negative period": {last: ago(30 * time.Second), period: period(-1), flag: time.Minute,
			within: 31 * time.Second},
		"switched off":                 {period: period(0), flag: time.Minute, never: true},
		"switched off by the flag":     {flag: 0, never: true},
		"own period against the flag":  {period: period(time.Hour), flag: 0, due: true},
		"after the clock was set back": {last: ago(-24 * time.Hour), flag: time.Minute, within: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Controller{Period: tt.flag, Now: func() time.Time { return now }}
			l := controllertest.NewLocation("l")
			l.Spec.BackupSyncPeriod, l.Status.LastSyncedTime = tt.period, tt.last
			period := r.period(l)
			require.Equal(t, tt.never, period == 0)
			if tt.never {
				return
			}
			left := r.left(l, new(memory), period)
			require.Equal(t, tt.due, left <= 0)
			require.LessOrEqual(t, left, tt.within)
			changed := l.Spec.DeepCopy()
			changed.Config = map[string]string{"region": "other"}
			require.Zero(t, r.left(l, &memory{spec: changed}, period), "another spec is due at once")
		})
	}
}
