package main_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/examples/data-mover/plugin"
	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	deletev1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/programs"
)

var plane = controlplane.Shared{Common: true}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(plane.Main(m))
}

// patience is how long a test waits for a result that usually takes a second.
const patience = 5 * time.Minute

// site is a mover with a namespace, a bucket and volumes of its own.
type site struct {
	t         *testing.T
	binary    string
	cluster   *controlplane.Cluster
	client    client.Client
	namespace string
	bucket    string
	volumes   string
	plugin    *plugintest.Plugin
	config    plugintest.Option
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, cluster: plane.Get(t), volumes: t.TempDir(), namespace: "mover-" + strings.ToLower(rand.Text())}
	s.bucket = s.cluster.NewBucket(t, "mover")
	require.NoError(t, os.Setenv("KUBECONFIG", s.cluster.Kubeconfig)) // the same for all tests
	s.binary = programs.Build(t, "examples/data-mover")
	output, err := exec.Command(s.binary, "install").CombinedOutput()
	require.NoError(t, err, "%s", output)
	scheme := runtime.NewScheme()
	require.NoError(t, v1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	config, err := v1.Cluster()
	require.NoError(t, err)
	s.client, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, s.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	s.plugin = plugintest.Start(t, s.binary)
	s.config = plugintest.WithConfig(map[string]string{"namespace": s.namespace})
	return s
}

// controller is a process.
type controller struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *output
	done chan error
}

// controller starts a controller. It is killed at the end of the test.
func (s *site) controller(flags ...string) *controller {
	s.t.Helper()
	c := &controller{t: s.t, log: &output{}, done: make(chan error, 1)}
	c.cmd = exec.Command(s.binary, append([]string{
		"controller", "--namespace=" + s.namespace, "--volumes=" + s.volumes, "--pack-size=65536", "--lease=6s",
		"--bucket=" + s.bucketURL(),
	}, flags...)...)
	c.cmd.Env = s.environ()
	c.cmd.Stderr = c.log
	require.NoError(s.t, c.cmd.Start())
	go func() { c.done <- c.cmd.Wait() }()
	s.t.Cleanup(func() {
		c.kill()
		if s.t.Failed() {
			s.t.Logf("end of the log of a controller:\n%s", c.log)
		}
	})
	return c
}

// bucketURL returns the flag --bucket.
func (s *site) bucketURL() string {
	return fmt.Sprintf("s3://%s?endpoint=%s&region=%s&use_path_style=true", s.bucket, s.cluster.S3.Endpoint,
		s.cluster.S3.Region)
}

// environ returns the environment of a controller.
func (s *site) environ() []string {
	return append(os.Environ(), "AWS_ACCESS_KEY_ID="+s.cluster.S3.AccessKey, "AWS_SECRET_ACCESS_KEY="+
		s.cluster.S3.SecretKey)
}

// output is the end of the output of a process.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, text...)
	o.text = o.text[max(0, len(o.text)-8<<10):]
	return len(text), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

func (c *controller) kill() {
	_ = c.cmd.Process.Kill()
	c.done <- <-c.done
}

func (c *controller) signal(signal os.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(signal))
}

func (s *site) claim(namespace, name string) *unstructured.Unstructured {
	s.t.Helper()
	const text = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: %s, name: %s}}`
	return plugintest.Object(s.t, fmt.Sprintf(text, namespace, name))
}

// fill writes files into the volume of a claim.
func (s *site) fill(namespace, name string, files int) {
	s.t.Helper()
	for i := range files {
		file := filepath.Join(s.volumes, namespace, name, fmt.Sprintf("d%d", i%9), fmt.Sprintf("f%d", i))
		require.NoError(s.t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(s.t, os.WriteFile(file, bytes.Repeat([]byte(file), 1+i%100), 0o600))
		require.NoError(s.t, os.Chtimes(file, time.Time{}, time.Unix(int64(1e9+i), 12345)))
	}
	require.NoError(s.t, os.Symlink("d0/f0", filepath.Join(s.volumes, namespace, name, "link")))
}

// content describes the volume of a claim.
func (s *site) content(namespace, name string) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	root := filepath.Join(s.volumes, namespace, name)
	require.NoError(s.t, filepath.WalkDir(root, func(path string, found fs.DirEntry, err error) error {
		require.NoError(s.t, err)
		file, err := found.Info()
		require.NoError(s.t, err)
		relative, err := filepath.Rel(root, path)
		require.NoError(s.t, err)
		switch file.Mode().Type() {
		case fs.ModeSymlink:
			all[relative], err = os.Readlink(path)
		case fs.ModeDir:
			all[relative] = fmt.Sprint(file.Mode(), file.ModTime())
		default:
			var text []byte
			text, err = os.ReadFile(path)
			all[relative] = fmt.Sprint(file.Mode(), file.ModTime(), string(text))
		}
		return err
	}))
	return all
}

// operation is an operation that the plugin has started.
type operation struct {
	*site
	id       string
	item     *unstructured.Unstructured
	progress func() (framework.OperationProgress, error)
	cancel   func() error
}

func (s *site) backUp(item *unstructured.Unstructured, key string) *operation {
	s.t.Helper()
	action, of := s.plugin.AsyncBackupItemActionV1(plugin.Name, s.config), plugintest.Backup("nightly")
	started, err := action.Start(s.t.Context(), &abiav1.StartInput{Item: item.DeepCopy(), Backup: of, Key: key})
	require.NoError(s.t, err)
	return &operation{s, started.OperationID, started.UpdatedItem, func() (framework.OperationProgress, error) {
		return action.Progress(s.t.Context(), &abiav1.ProgressInput{OperationID: started.OperationID, Backup: of})
	}, func() error {
		return action.Cancel(s.t.Context(), &abiav1.CancelInput{OperationID: started.OperationID, Backup: of})
	}}
}

func (s *site) restore(from *unstructured.Unstructured, namespace, key string) *operation {
	s.t.Helper()
	action, of := s.plugin.AsyncRestoreItemActionV1(plugin.Name, s.config), plugintest.Restore("back", "nightly")
	item := from.DeepCopy()
	item.SetNamespace(namespace)
	started, err := action.Start(s.t.Context(), &ariav1.StartInput{Item: item, ItemFromBackup: from, Restore: of,
		Key: key})
	require.NoError(s.t, err)
	require.Empty(s.t, started.UpdatedItem.GetAnnotations(), "the annotation stands in the backup only")
	return &operation{s, started.OperationID, started.UpdatedItem, func() (framework.OperationProgress, error) {
		return action.Progress(s.t.Context(), &ariav1.ProgressInput{OperationID: started.OperationID, Restore: of})
	}, func() error {
		return action.Cancel(s.t.Context(), &ariav1.CancelInput{OperationID: started.OperationID, Restore: of})
	}}
}

// until polls an operation until its progress satisfies want.
func (o *operation) until(want func(framework.OperationProgress) bool) framework.OperationProgress {
	o.t.Helper()
	var last framework.OperationProgress
	require.Eventually(o.t, func() bool {
		var err error
		last, err = o.progress()
		require.NoError(o.t, err)
		return want(last)
	}, patience, 50*time.Millisecond)
	return last
}

func (o *operation) untilEnd() framework.OperationProgress {
	o.t.Helper()
	return o.until(func(p framework.OperationProgress) bool { return p.Completed })
}

// untilUnderWay waits until some of the data is moved, but not all.
func (o *operation) untilUnderWay() {
	o.t.Helper()
	p := o.until(func(p framework.OperationProgress) bool { return p.NCompleted > 0 })
	require.False(o.t, p.Completed)
	require.Less(o.t, p.NCompleted, p.NTotal)
}

func (o *operation) untilCompleted() {
	o.t.Helper()
	p := o.untilEnd()
	require.Empty(o.t, p.Err)
	require.Equal(o.t, p.NTotal, p.NCompleted)
	require.Equal(o.t, "bytes", p.Units)
}

func (o *operation) transfer() *v1.DataTransfer {
	o.t.Helper()
	var transfer v1.DataTransfer
	namespace, name, _ := strings.Cut(o.id, "/")
	require.NoError(o.t, o.client.Get(o.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &transfer))
	return &transfer
}

// untilBucketIsEmpty waits for the deletion of all snapshots.
func (s *site) untilBucketIsEmpty() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		files := 0
		err := filepath.WalkDir(filepath.Join(s.cluster.S3.Dir, s.bucket),
			func(_ string, found fs.DirEntry, err error) error {
				if err == nil && !found.IsDir() {
					files++
				}
				return err
			})
		return files == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) // folders disappear meanwhile
	}, patience, 100*time.Millisecond)
}

// slow makes a controller that does not finish in the time of a test.
const slow = "--bytes-per-second=70000"

func TestTransfersGoOnAfterTheirControllerIsKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill("shop", "data", 4000)
	first := s.controller(slow)
	backup := s.backUp(s.claim("shop", "data"), "backup")
	backup.untilUnderWay()
	first.kill()
	s.plugin.Kill() // the next process of the plugin finds the operation, too
	s.plugin = plugintest.Start(t, s.binary)
	again := s.backUp(s.claim("shop", "data"), "backup")
	require.Equal(t, backup.id, again.id)
	require.Equal(t, backup.item, again.item)

	second := s.controller()
	again.untilCompleted()
	require.GreaterOrEqual(t, again.transfer().Status.Attempts, int64(2))
	require.EqualValues(t, 4000, again.transfer().Status.FilesDone)
	second.kill()

	third := s.controller(slow)
	restore := s.restore(again.item, "other", "restore")
	restore.untilUnderWay()
	third.kill()
	s.controller()
	s.controller() // one of them takes over
	restore.untilCompleted()
	require.GreaterOrEqual(t, restore.transfer().Status.Attempts, int64(2))
	require.Equal(t, s.content("shop", "data"), s.content("other", "data"))
}

func TestControllerThatStopsHandsOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill("shop", "data", 1000)
	first := s.controller(slow, "--lease=1h")
	backup := s.backUp(s.claim("shop", "data"), "backup")
	backup.untilUnderWay()
	first.signal(syscall.SIGTERM)
	require.NoError(t, <-first.done)
	first.done <- nil
	s.controller("--lease=1h") // need not wait for the lease
	backup.untilCompleted()
	require.EqualValues(t, 2, backup.transfer().Status.Attempts)
}

// A controller that is suspended for longer than the lease finds that another has taken over, and stops writing.
func TestSuspendedControllerLosesItsTransfers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill("shop", "data", 1000)
	first := s.controller(slow)
	backup := s.backUp(s.claim("shop", "data"), "backup")
	backup.untilUnderWay()
	first.signal(syscall.SIGSTOP)
	second := s.controller()
	backup.untilCompleted()
	second.kill()
	before := backup.transfer()
	first.signal(syscall.SIGCONT)
	later := s.backUp(s.claim("shop", "missing"), "later") // by the first one, once it has continued
	require.Contains(t, later.untilEnd().Err, "no such file or directory")
	require.Equal(t, before, backup.transfer())
	restore := s.restore(backup.item, "other", "restore")
	s.controller()
	first.kill()
	restore.untilCompleted()
	require.Equal(t, s.content("shop", "data"), s.content("other", "data"))
}

func TestEachTransferHasOneController(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var all []*operation
	for i := range 20 {
		name := fmt.Sprintf("data-%d", i)
		s.fill("shop", name, 5)
		all = append(all, s.backUp(s.claim("shop", name), "backup/"+name))
	}
	require.Contains(t, all[0].until(func(framework.OperationProgress) bool { return true }).Description,
		"waiting for a controller")
	for range 3 {
		s.controller("--lease=1h")
	}
	for _, backup := range all {
		backup.untilCompleted()
		require.EqualValues(t, 1, backup.transfer().Status.Attempts)
	}
}

func TestCancelledTransfersEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill("shop", "data", 1000)
	s.controller(slow, "--transfers=1")
	backup := s.backUp(s.claim("shop", "data"), "backup")
	backup.untilUnderWay()
	waiting := s.backUp(s.claim("shop", "data"), "waiting")
	for range 2 { // the second time changes nothing
		require.NoError(t, waiting.cancel())
		require.Equal(t, "the transfer was cancelled", waiting.untilEnd().Err)
	}
	require.NoError(t, backup.cancel())
	require.Contains(t, backup.untilEnd().Err, "the transfer was cancelled")
	require.Equal(t, v1.Cancelled, backup.transfer().Status.Phase)
	s.untilBucketIsEmpty()
}

func TestFailuresSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.controller("--transfers=8")
	missing := s.backUp(s.claim("shop", "missing"), "missing")
	require.Contains(t, missing.untilEnd().Err, filepath.Join(s.volumes, "shop", "missing")+": no such file or directory")

	s.fill("shop", "data", 10)
	s.fill("taken", "data", 3)
	before := s.content("taken", "data")
	backup := s.backUp(s.claim("shop", "data"), "backup")
	backup.untilCompleted()
	taken := s.restore(backup.item, "taken", "taken")
	require.Contains(t, taken.untilEnd().Err, `taken/data is not empty, it has "d0": restore into an empty volume`)
	require.Equal(t, before, s.content("taken", "data"))

	packs, err := filepath.Glob(filepath.Join(s.cluster.S3.Dir, s.bucket, "plugins/mover.example.io/*/packs/*"))
	require.NoError(t, err)
	require.NotEmpty(t, packs)
	require.NoError(t, os.WriteFile(packs[0], []byte("rust"), 0o600))
	require.Contains(t, s.restore(backup.item, "damaged", "damaged").untilEnd().Err, "is damaged: its SHA-256 is")
}

func TestClaimsWithoutSnapshotStartNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	item := s.claim("shop", "data")
	started, err := s.plugin.AsyncRestoreItemActionV1(plugin.Name, s.config).Start(t.Context(), &ariav1.StartInput{
		Item: item, ItemFromBackup: item, Restore: plugintest.Restore("back", "nightly"), Key: "none",
	})
	require.NoError(t, err)
	require.Empty(t, started.OperationID)
	item.SetAnnotations(map[string]string{plugin.SnapshotAnnotation: "../../backups"})
	_, err = s.plugin.AsyncRestoreItemActionV1(plugin.Name, s.config).Start(t.Context(), &ariav1.StartInput{
		Item: item, ItemFromBackup: item, Restore: plugintest.Restore("back", "nightly"), Key: "foreign",
	})
	require.ErrorContains(t, err, "spec.snapshot")
}

func TestSnapshotsAreDeletedWithTheirBackup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.controller()
	s.fill("shop", "data", 100)
	backup := s.backUp(s.claim("shop", "data"), "backup")
	backup.untilCompleted()
	for range 2 { // a deletion that was interrupted is repeated
		require.NoError(t, s.plugin.DeleteItemActionV1(plugin.Name, s.config).Execute(t.Context(), &deletev1.ExecuteInput{
			Item: backup.item, Backup: plugintest.Backup("nightly"),
		}))
	}
	s.untilBucketIsEmpty()
}

// Deleted transfers are not found: the host ends the operation as failed.
func TestTransfersThatAreGoneAreNotFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill("shop", "data", 1000)
	s.controller(slow)
	backup := s.backUp(s.claim("shop", "data"), "backup")
	backup.untilUnderWay()
	require.NoError(t, s.client.Delete(t.Context(), backup.transfer()))
	_, err := backup.progress()
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.ErrorIs(t, backup.cancel(), framework.ErrNotFound)
	s.untilBucketIsEmpty()

	quick := newSite(t) // its controller retains nothing
	quick.controller("--keep=0")
	quick.fill("shop", "data", 1)
	quick.backUp(quick.claim("shop", "data"), "backup")
	require.Eventually(t, func() bool {
		var all v1.DataTransferList
		require.NoError(t, quick.client.List(context.WithoutCancel(t.Context()), &all, client.InNamespace(quick.namespace)))
		return len(all.Items) == 0
	}, patience, 50*time.Millisecond)
}
