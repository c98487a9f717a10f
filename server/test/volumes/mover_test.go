package volumes_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// mover is the vendor's data mover of examples/, installed for a site.
type mover struct {
	site       *site.Site
	program    string
	volumes    string // holds a directory for each claim
	env        []string
	controller *exec.Cmd
	gate       *site.Gate // in front of the bucket
	s3         string     // through the gate
}

// newMover installs the custom resource of the mover, and the plugin for the server.
func newMover(s *site.Site, plugins string) *mover {
	s.T.Helper()
	m := &mover{site: s, program: programs.Build(s.T, "examples/data-mover"), volumes: s.T.TempDir(), gate: &site.Gate{}}
	_, m.s3 = m.gate.Behind(s.T, s.Cluster)
	programs.Copy(s.T, "examples/data-mover", filepath.Join(plugins, "data-mover"))
	m.env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "AWS_ACCESS_KEY_ID="+s.Cluster.S3.AccessKey,
		"AWS_SECRET_ACCESS_KEY="+s.Cluster.S3.SecretKey)
	install := exec.CommandContext(s.T.Context(), m.program, "install")
	install.Env = m.env
	out, err := install.CombinedOutput()
	require.NoError(s.T, err, "%s", out)
	s.T.Cleanup(m.kill)
	return m
}

// start starts the controller.
func (m *mover) start() {
	m.site.T.Helper()
	bucket := fmt.Sprintf("s3://%s?endpoint=%s&region=%s&use_path_style=true", filepath.Base(m.site.BucketDir), m.s3,
		m.site.Cluster.S3.Region)
	m.controller = exec.Command(m.program, "controller", "--namespace", m.site.Namespace, "--volumes", m.volumes,
		"--bucket", bucket, "--lease", "5s")
	m.controller.Env = m.env
	require.NoError(m.site.T, m.controller.Start())
}

func (m *mover) kill() {
	if m.controller != nil {
		_ = m.controller.Process.Kill()
		_ = m.controller.Wait()
		m.controller = nil
	}
}

// killInTheMiddle kills the controller when transfers in one direction have moved some, but not all bytes, because a
// pack is held.
func (m *mover) killInTheMiddle(direction string, held <-chan string, least, most int64) {
	m.site.T.Helper()
	m.site.Eventually("some bytes are moved", func(ctx context.Context) (bool, error) {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "mover.example.io", Version: "v1", Kind: "DataTransferList"})
		err := m.site.Client.List(ctx, &list, client.InNamespace(m.site.Namespace))
		var moved int64
		for _, transfer := range list.Items {
			if d, _, _ := unstructured.NestedString(transfer.Object, "spec", "direction"); strings.EqualFold(d, direction) {
				n, _, _ := unstructured.NestedInt64(transfer.Object, "status", "bytesDone")
				moved += n
			}
		}
		require.Less(m.site.T, moved, most, "one is held")
		return moved >= least, err
	})
	m.site.AwaitHit(held)
	m.kill()
	m.gate.Disarm()
	m.start()
}

// packs matches the transfers of packs to the bucket, or from it.
func packs(method string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, "/packs/") }
}

// fill writes files with random content.
func fill(t *testing.T, dir string, files int, size int64, seed uint64) {
	t.Helper()
	source := rand.NewChaCha8([32]byte{byte(seed)})
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("d%02d", i%17), fmt.Sprintf("file-%04d", i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		file, err := os.Create(path)
		require.NoError(t, err)
		_, err = io.CopyN(file, source, size+int64(i%7))
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
}

// tree returns the SHA-256 of each file below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sums[name] = hex.EncodeToString(sum.Sum(nil))
		return err
	}))
	return sums
}

// TestAcceptVolumes_MoverOfVendor backs up, deletes and restores 2 GB in 5,000 files of four claims with the data
// mover of a vendor, whose controller is killed during the transfers in both directions. $CLEAT_MOVER_TEST_SIZE
// replaces the size of 2 GB.
func TestAcceptVolumes_MoverOfVendor(t *testing.T) {
	t.Parallel()
	const claims, files = 4, 5000
	all := int64(2 << 30)
	if given := os.Getenv("CLEAT_MOVER_TEST_SIZE"); given != "" {
		size := resource.MustParse(given)
		all = size.Value()
	}
	s := site.New(t, "cleat.dev/s3")
	plugins := t.TempDir()
	m := newMover(s, plugins)
	s.Environment = []string{"KUBECONFIG=" + s.Kubeconfig, "CLEAT_DATA_MOVER_NAMESPACE=" + s.Namespace}
	s.Serve("--plugin-dir", plugins, "--item-operation-sync-frequency", "1s")
	s.Available()
	shop := s.Workload(1)
	filled := map[string]map[string]string{}
	for i := range claims {
		name := fmt.Sprintf("data-%d", i)
		require.NoError(t, s.Client.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("none"),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		}))
		fill(t, filepath.Join(m.volumes, shop, name), files/claims, all/files, uint64(i))
		filled[name] = tree(t, filepath.Join(m.volumes, shop, name))
	}
	const third = 3
	held := m.gate.Arm(third, site.Before, packs(http.MethodPut))
	m.start()
	s.BeginBackupOf("b", shop)
	m.killInTheMiddle("Backup", held, all/20, all)
	b := s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	require.Equal(t, [2]int{claims, claims}, [2]int{b.Status.BackupItemOperationsAttempted,
		b.Status.BackupItemOperationsCompleted})
	for _, o := range s.Operations(b) {
		require.GreaterOrEqual(t, o.NTotal, all/claims)
		require.Equal(t, o.NTotal, o.NCompleted)
		require.Equal(t, "bytes", o.Units)
	}

	require.NoError(t, os.RemoveAll(filepath.Join(m.volumes, shop)))
	for name := range filled {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}}
		require.NoError(t, s.Client.Delete(t.Context(), claim))
		s.Eventually("the claim is gone", func(ctx context.Context) (bool, error) {
			claim.Finalizers = nil
			_ = s.Client.Patch(ctx, claim, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":null}}`)))
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
	held = m.gate.Arm(third, site.Before, packs(http.MethodGet))
	s.RestoreTo("r", "b", shop, shop)
	m.killInTheMiddle("Restore", held, all/20, all)
	r := s.AwaitRestore("r", velerov1.RestorePhaseCompleted)
	require.Equal(t, [2]int{claims, claims}, [2]int{r.Status.RestoreItemOperationsAttempted,
		r.Status.RestoreItemOperationsCompleted})
	for name, sums := range filled {
		require.Equal(t, sums, tree(t, filepath.Join(m.volumes, shop, name)), name)
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: shop, Name: name},
			new(corev1.PersistentVolumeClaim)))
	}
	s.AwaitNoJournals()

	// The data of the mover is deleted with the backup.
	request := s.RequestDeletion("b")
	s.AwaitGone(&velerov1.DeleteBackupRequest{}, request.Name)
	s.Eventually("the bucket is empty", func(context.Context) (bool, error) {
		left := 0
		err := filepath.WalkDir(filepath.Join(s.BucketDir, "plugins"), func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				left++
			}
			return nil
		})
		return left == 0, err
	})
}
