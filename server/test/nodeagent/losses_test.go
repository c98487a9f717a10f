package nodeagent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptVolumes_Losses backs up a volume with files that kopia cannot keep, and restores it into one that refuses
// attributes: each of them is a warning of the Backup or Restore, and in the status of the load. Then the repository is
// removed from the bucket: the next backup creates it again and says so, and the first one can be deleted.
func TestAcceptVolumes_Losses(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	shop, db := f.shop()
	f.runAgent()
	f.serve()
	cache := f.volume(db, "kubernetes.io~empty-dir/cache")
	at := func(name string) string { return filepath.Join(cache, name) }
	for i := range 12 {
		require.NoError(t, unix.Mkfifo(at(fmt.Sprintf("fifo-%02d", i)), 0o600))
	}
	require.NoError(t, os.Link(at("file"), at("linked")))
	require.NoError(t, os.Mkdir(at("db"), 0o750))
	for name, content := range map[string]string{"n\xff": "a byte", `n\xff`: "four characters"} {
		require.NoError(t, os.WriteFile(at(name), []byte(content), 0o600))
	}
	lost := []string{
		`12 FIFOs, sockets or devices, which kopia does not store: they are not in the snapshot: "fifo-00", "fifo-01", ` +
			`"fifo-02", "fifo-03", "fifo-04", "fifo-05", "fifo-06", "fifo-07", "fifo-08", "fifo-09" and 2 more`,
		`2 files have several names, which kopia stores as files of their own: "file", "linked"`,
	}
	if unix.Setxattr(at("file"), "user.cleat", []byte("value"), 0) == nil {
		lost = append(lost, `objects have extended attributes, such as ACLs or capabilities, which kopia does not store`)
	}
	root := os.Geteuid() == 0
	if root {
		require.NoError(t, os.Chown(at("db"), 1001, 1001))
	}
	spec := velerov1.BackupSpec{IncludedNamespaces: []string{shop}}
	b := f.backUp("b", spec)
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, f.results("backups", "b"))
	for _, load := range f.loadsOf(t.Context(), "b") {
		if load.Spec.Volume != "cache" {
			require.Empty(t, load.Status.Message)
			continue
		}
		require.Len(t, strings.Split(load.Status.Message, "\n"), len(lost), load.Status.Message)
		described, err := f.cleat("backup", "describe", "b", "--details")
		require.NoError(t, err)
		logged, err := f.cleat("backup", "logs", "b")
		require.NoError(t, err)
		require.GreaterOrEqual(t, b.Status.Warnings, len(lost))
		for _, text := range lost {
			require.Contains(t, load.Status.Message, text)
			require.Contains(t, f.results("backups", "b"), "name: /db message: /volume cache: ")
			require.Contains(t, f.results("backups", "b"), text)
			require.Contains(t, described, text)
			require.Contains(t, logged, text[:20])
		}
	}
	f.restoreImmutable(t, "b", shop, root)

	require.NoError(t, os.RemoveAll(filepath.Join(f.bucket, "kopia", shop)))
	again := f.backUp("again", spec)
	require.Equal(t, velerov1.BackupPhaseCompleted, again.Status.Phase, f.results("backups", "again"))
	const anew = "did not exist any more and was created again"
	require.Contains(t, f.results("backups", "again"), anew)
	var known velerov1.BackupRepository
	require.NoError(t, f.client.Get(t.Context(),
		client.ObjectKey{Namespace: f.namespace, Name: shop + "-objects-kopia"}, &known))
	require.Equal(t, velerov1.BackupRepositoryPhaseReady, known.Status.Phase)
	require.Contains(t, known.Status.Message, anew)

	require.NoError(t, os.RemoveAll(filepath.Join(f.bucket, "kopia", shop)))
	for _, name := range []string{"b", "again"} {
		out, err := f.cleat("backup", "delete", name, "--confirm")
		require.NoError(t, err, out)
		f.retry("backup "+name+" is deleted", func(ctx context.Context) error {
			err := f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, new(velerov1.Backup))
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it exists"), err)
		})
	}
}

// restoreImmutable restores a backup while the directory db of the new volume, which has another owner in the backup,
// cannot be changed.
func (f *files) restoreImmutable(t *testing.T, backup, shop string, root bool) {
	t.Helper()
	namespace := "immutable-" + f.namespace
	r := &velerov1.Restore{}
	r.Name, r.Spec = "into", velerov1.RestoreSpec{BackupName: backup, NamespaceMapping: map[string]string{shop: namespace}}
	f.create(r)
	held := false
	pod := f.admit(namespace, "db", func(pod *corev1.Pod) {
		db := filepath.Join(f.volume(pod, "kubernetes.io~empty-dir/cache"), "db")
		require.NoError(t, os.Mkdir(db, 0o700))
		held = root && setImmutable(db, true) == nil
		t.Cleanup(func() { _ = setImmutable(db, false) }) // or it could not be removed
	})
	f.retry("the volumes are restored", func(ctx context.Context) error {
		var loads velerov1.PodVolumeRestoreList
		err := f.client.List(ctx, &loads, client.InNamespace(f.namespace),
			client.MatchingLabels{velerov1.RestoreUIDLabel: string(r.UID)})
		for i := range loads.Items {
			if !loads.Items[i].Status.Phase.Terminal() {
				err = errors.Join(err, fmt.Errorf("volume %s is not", loads.Items[i].Spec.Volume))
			}
		}
		return err
	})
	f.endWait(pod)
	require.Equal(t, velerov1.RestorePhaseCompleted, f.restored(r).Status.Phase, f.results("restores", "into"))
	cache := f.volume(pod, "kubernetes.io~empty-dir/cache")
	for name, content := range map[string]string{"n\xff": "a byte", `n\xff`: "four characters"} {
		read, err := os.ReadFile(filepath.Join(cache, name))
		require.NoError(t, err)
		require.Equal(t, content, string(read))
	}
	if !held {
		t.Log("this machine makes no immutable directory for this user")
		return
	}
	for _, text := range []string{
		`volume cache: 1 objects do not have the owner of the backup, because the volume refuses it: "db"`,
		`volume cache: 1 objects do not have the time of the backup, because the volume refuses it: "db"`,
	} {
		require.Contains(t, f.results("restores", "into"), text)
		described, err := f.cleat("restore", "describe", "into", "--details")
		require.NoError(t, err)
		require.Contains(t, described, text)
	}
	require.GreaterOrEqual(t, r.Status.Warnings, 2)
}

// setImmutable sets or removes the flag of a file that "chattr +i" sets.
func setImmutable(path string, set bool) error {
	const immutable = 0x10 // FS_IMMUTABLE_FL
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	flags, err := unix.IoctlGetUint32(int(opened.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	flags &^= immutable
	if set {
		flags |= immutable
	}
	return unix.IoctlSetPointerInt(int(opened.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}
