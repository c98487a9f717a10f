package nodeagent_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// plant writes a complete forged backup into the bucket, with some PodVolumeBackups.
func (f *files) plant(name string, change func(*velerov1.Backup), loads ...any) {
	f.t.Helper()
	b := &velerov1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "velero.io/v1", Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "velero", UID: types.UID("uid-of-" + name)},
		Spec:       velerov1.BackupSpec{StorageLocation: "objects"},
		Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted},
	}
	if change != nil {
		change(b)
	}
	f.plantFile(name, "podvolumebackups", loads)
	content, err := json.Marshal(b)
	require.NoError(f.t, err)
	require.NoError(f.t, os.WriteFile(filepath.Join(f.bucket, "backups", name, "velero-backup.json"), content, 0o644))
}

func (f *files) plantFile(name, file string, value any) {
	f.t.Helper()
	dir := filepath.Join(f.bucket, "backups", name)
	require.NoError(f.t, os.MkdirAll(dir, 0o755))
	var content strings.Builder
	zipped := gzip.NewWriter(&content)
	require.NoError(f.t, errors.Join(json.NewEncoder(zipped).Encode(value), zipped.Close()))
	require.NoError(f.t, os.WriteFile(filepath.Join(dir, name+"-"+file+".json.gz"), []byte(content.String()), 0o644))
}

// brought waits until a backup of the bucket is in the cluster, with all its objects.
func (f *files) brought(name string) *velerov1.Backup {
	f.t.Helper()
	b := &velerov1.Backup{}
	f.retry("backup "+name+" is brought", func(ctx context.Context) error {
		if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, b); err != nil {
			return err
		}
		if b.Annotations["cleat.dev/sync-incomplete"] != "" {
			return errors.New("its PodVolumeBackups are still to come")
		}
		return nil
	})
	return b
}

// opens reports whether the repository of a namespace opens with a password.
func (f *files) opens(namespace, password string) bool {
	f.t.Helper()
	repository := filepath.Join(f.bucket, "restic", namespace)
	if _, err := os.Stat(repository); err != nil {
		return false
	}
	cmd := exec.CommandContext(f.t.Context(), programs.Restic(f.t), "--repo", repository, "--no-cache", "--no-lock", "cat",
		"config")
	cmd.Env = append(os.Environ(), "RESTIC_PASSWORD="+password)
	return cmd.Run() == nil
}

// TestAcceptSecurity_Synchronised stores PodVolumeBackups in all phases except the last ones, as an attacker with
// write access to the bucket: they are not carried out. PodVolumeBackups that have ended are history, whatever they
// contain, but nothing is read from a damaged file.
func TestAcceptSecurity_Synchronised(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.useRestic()
	shop, db := f.shop()
	f.runAgent()
	f.serve("--backup-sync-period=1s")

	load := func(name string, phase velerov1.LoadPhase) map[string]any {
		return map[string]any{
			"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
			"metadata": map[string]any{
				"name": name, "namespace": "velero", "finalizers": []string{"example.io/stays"},
				"deletionTimestamp": "2026-01-01T00:00:00Z",
				"annotations": map[string]string{"cleat.dev/anything": "x", "velero.io/pvc-name": "data",
					"example.io/any": "x"},
				"labels": map[string]string{"velero.io/backup-name": "of-another", "velero.io/backup-uid": "of-another",
					"velero.io/async-operation-id": "of-another", "velero.io/pvc-uid": "claim"},
				"ownerReferences": []map[string]any{{"apiVersion": "v1", "kind": "Pod", "name": "db", "uid": "x",
					"controller": true}},
			},
			"spec": map[string]any{
				"node": f.nodes[0], "pod": map[string]any{"kind": "Pod", "namespace": shop, "name": db.Name, "uid": string(db.UID)},
				"volume":                "data",
				"backupStorageLocation": "elsewhere", "uploaderType": "restic", "repoIdentifier": "", "cancel": true,
				"tags": map[string]string{"backup": "evil"},
			},
			"status": map[string]any{"phase": string(phase), "snapshotID": "0123456789abcdef"},
		}
	}
	var loads []any
	for i, phase := range []velerov1.LoadPhase{"", "New", "Accepted", "Prepared", "InProgress", "Canceling", "Unheard"} {
		one := load(fmt.Sprintf("work-%d", i), phase)
		if phase == "" {
			one["status"] = map[string]any{}
			one["spec"].(map[string]any)["cancel"] = false //nolint:forcetypeassert // made above
		}
		loads = append(loads, one)
	}
	strange := load("strange", "Completed")
	strange["kind"] = "DataUpload"
	f.plant("evil", nil, append(loads, strange, load("No Name", "Completed"), load("history", "Completed"))...)
	f.plant("damaged", nil, load("before", "Completed"), nil, load("behind", "Completed"))
	b := f.brought("evil")
	f.brought("damaged")
	var list velerov1.PodVolumeBackupList
	require.NoError(t, f.client.List(t.Context(), &list, client.InNamespace(f.namespace)))
	if len(list.Items) > 1 { // what happens to the others?
		f.retry("a volume of somebody else is copied", func(context.Context) error {
			if !f.opens(shop, "static-passw0rd") {
				return errors.New("there is no repository with the public password")
			}
			return nil
		})
	}
	require.False(t, f.opens(shop, "static-passw0rd"),
		"an agent has copied a volume into a repository whose password is public")
	require.Len(t, list.Items, 1)
	history := list.Items[0]
	require.Equal(t, "history", history.Name)
	require.Empty(t, history.Finalizers)
	require.Nil(t, history.DeletionTimestamp)
	require.Equal(t, map[string]string{"velero.io/backup-name": "evil", "velero.io/backup-uid": string(b.UID),
		"velero.io/pvc-uid": "claim"}, history.Labels)
	require.Equal(t, map[string]string{"velero.io/pvc-name": "data", "example.io/any": "x"}, history.Annotations)
	require.Len(t, history.OwnerReferences, 1)
	require.Equal(t, b.UID, history.OwnerReferences[0].UID)
	require.False(t, history.Spec.Cancel)
	require.Equal(t, "objects", history.Spec.BackupStorageLocation)
	require.NoDirExists(t, filepath.Join(f.bucket, "restic"))
}

// TestAcceptSecurity_ExpiredOnArrival has a backup of the bucket that names the snapshots of other backups in
// repositories.
func TestAcceptSecurity_ExpiredOnArrival(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.useRestic()
	shop, _ := f.shop()
	f.runAgent()
	f.serve("--backup-sync-period=1s", "--garbage-collection-frequency=1s")
	victim := f.backUp("victim", velerov1.BackupSpec{IncludedNamespaces: []string{shop}, StorageLocation: "objects"})
	require.Equal(t, velerov1.BackupPhaseCompleted, victim.Status.Phase, f.results("backups", "victim"))
	stored := func() int {
		entries, err := os.ReadDir(filepath.Join(f.bucket, "restic", shop, "snapshots"))
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		return len(entries)
	}
	had := stored()
	require.NotZero(t, had)

	var loads []any
	var infos []volumes.VolumeInfo
	for _, load := range f.loadsOf(t.Context(), "victim") {
		load.Name = "of-evil-" + load.Name
		load.Spec.Tags["backup"] = "evil"
		loads = append(loads, load)
		infos = append(infos, volumes.VolumeInfo{
			PVCNamespace: shop, PVCName: "data", SnapshotDataMoved: true,
			DataMovement: &volumes.MovementInfo{DataMover: velerov1.ResticDataMover, SnapshotHandle: load.Status.SnapshotID},
		})
	}
	f.plantFile("evil", "volumeinfo", infos)
	f.plant("evil", func(b *velerov1.Backup) {
		b.UID = victim.UID
		b.Status.StartTimestamp, b.Status.Expiration = &metav1.Time{Time: time.Now().Add(-2 * time.Hour)},
			&metav1.Time{Time: time.Now().Add(-time.Hour)}
	}, loads...)
	f.retry("the expired backup is gone", func(context.Context) error {
		if left, _ := os.ReadDir(filepath.Join(f.bucket, "backups", "evil")); len(left) > 0 {
			return errors.New("its files are there")
		}
		return nil
	})
	require.Equal(t, had, stored(), "snapshots of another backup are removed")
	out, err := f.cleat("backup", "delete", "victim", "--confirm", "--wait")
	require.NoError(t, err, out)
	require.Zero(t, stored(), "those of the backup itself are")
}

// TestAcceptSecurity_Password creates and opens repositories with agents: with a password that only the installation
// has.
func TestAcceptSecurity_Password(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.useRestic()
	shop, _ := f.shop()
	f.runAgent()
	server := f.serve("--store-validation-frequency=1s")
	b := f.backUp("b", velerov1.BackupSpec{IncludedNamespaces: []string{shop}, StorageLocation: "objects"})
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, f.results("backups", "b"))
	require.False(t, f.opens(shop, "static-passw0rd"), "the password of the repository is public")
	var secret corev1.Secret
	require.NoError(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "velero-repo-credentials"},
		&secret))
	own := string(secret.Data["repository-password"])
	require.True(t, f.opens(shop, own))
	location := func() *velerov1.BackupStorageLocation {
		l := &velerov1.BackupStorageLocation{}
		require.NoError(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "objects"}, l))
		return l
	}
	require.Empty(t, location().Status.Message)

	// An attacker with write access to the bucket creates a repository before the agent.
	trap := "trap-" + f.namespace
	cmd := exec.CommandContext(t.Context(), programs.Restic(t), "--repo", filepath.Join(f.bucket, "restic", trap),
		"--no-cache", "init")
	cmd.Env = append(os.Environ(), "RESTIC_PASSWORD=static-passw0rd")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, f.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: trap}}))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: trap, Name: "db",
			Annotations: map[string]string{velerov1.VolumesToBackupAnnotation: "cache"}},
		Spec: corev1.PodSpec{
			NodeName: f.nodes[0], AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "app", Image: "app",
				VolumeMounts: []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}},
			Volumes: []corev1.Volume{
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	f.run(pod, map[string]string{"cache": "kubernetes.io~empty-dir/cache"})
	require.NoError(t, os.WriteFile(filepath.Join(f.volume(pod, "kubernetes.io~empty-dir/cache"), "file"),
		[]byte("secret"), 0o600))
	b = f.backUp("trapped", velerov1.BackupSpec{IncludedNamespaces: []string{trap}, StorageLocation: "objects"})
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Contains(t, f.results("backups", "trapped"), "the password is wrong")
	left, err := os.ReadDir(filepath.Join(f.bucket, "restic", trap, "snapshots"))
	require.NoError(t, err)
	require.Empty(t, left, "a volume is stored in a repository that anybody can read")

	// An installation with the public password reports that.
	server.kill()
	f.change(&secret, func() { secret.Data["repository-password"] = []byte("static-passw0rd") })
	again := f.serve("--store-validation-frequency=1s")
	f.retry("the location says that the password is public", func(context.Context) error {
		if l := location(); l.Status.Phase != velerov1.BackupStorageLocationPhaseAvailable ||
			!strings.Contains(l.Status.Message, "which is public") {
			return fmt.Errorf("it is %s: %s", l.Status.Phase, l.Status.Message)
		}
		return nil
	})
	require.Contains(t, again.log.String(), "which is public")
}
