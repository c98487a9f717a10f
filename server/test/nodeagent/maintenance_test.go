package nodeagent_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// repository returns a BackupRepository when it fulfils a condition, which returns what is missing.
func (s *site) repository(name, what string, holds func(*velerov1.BackupRepository) bool) *velerov1.BackupRepository {
	s.t.Helper()
	of := new(velerov1.BackupRepository)
	s.retry("repository "+name+" "+what, func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, of); err != nil {
			return err
		}
		if !holds(of) {
			return fmt.Errorf("it is %+v, annotations %v", of.Status, of.Annotations)
		}
		return nil
	})
	return of
}

func attempts(n int) func(*velerov1.BackupRepository) bool {
	return func(of *velerov1.BackupRepository) bool { return len(of.Status.RecentMaintenance) == n }
}

// makeDue makes the maintenance of a repository due, for as long as a user who has not looked for a year.
func (s *site) makeDue(name string) {
	s.t.Helper()
	s.retry("repository "+name+" is due", func(ctx context.Context) error {
		of := new(velerov1.BackupRepository)
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, of); err != nil {
			return err
		}
		before := of.DeepCopy()
		of.Status.LastMaintenanceTime = run.Timestamp(time.Now().Add(-365 * 24 * time.Hour))
		return s.client.Patch(ctx, of, client.MergeFrom(before))
	})
}

// sizeOf returns the size of the files in a directory. Files and directories may vanish meanwhile.
func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !entry.IsDir() {
			size += info.Size()
		}
		return err
	}))
	return size
}

// TestAcceptVolumes_Maintenance has a server without a pod maintain a repository of each engine. The frequency and the
// settings are those of the flags. What a deleted backup has used is freed, and a damaged repository is said to be so.
func TestAcceptVolumes_Maintenance(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.useRestic()
	f.addKopia()
	shop, db := f.shop()
	const large = 4 << 20
	content := make([]byte, large)
	_, err := rand.Read(content)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.volume(db, dirs("pv-of-" + shop)["data"]), "large"), content, 0o600))
	f.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "of-repositories"},
		Data:       map[string]string{"kopia": `{"cacheLimitMB": 100, "fullMaintenanceInterval": "eagerGC"}`},
	})
	f.runAgent()
	args := []string{"--default-repo-maintain-frequency", "3h", "--backup-repository-configmap", "of-repositories",
		"--garbage-collection-frequency", "1h"}
	spec := velerov1.BackupSpec{IncludedNamespaces: []string{shop}}
	names := map[string]string{}
	for _, engine := range []string{"restic", "kopia"} {
		server := f.serve(append(args, "--uploader-type", engine)...)
		b := f.backUp("b-"+engine, spec)
		require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, f.results("backups", b.Name))
		names[engine] = shop + "-objects-" + engine
		f.repository(names[engine], "has a frequency", func(of *velerov1.BackupRepository) bool {
			return of.Spec.MaintenanceFrequency.Duration == 3*time.Hour
		})
		if engine == "restic" {
			server.kill()
		}
	}
	require.Equal(t, map[string]string{"cacheLimitMB": "100", "fullMaintenanceInterval": "eagerGC"},
		f.repository(names["kopia"], "exists", attempts(0)).Spec.RepositoryConfig)

	out, err := f.cleat("backup", "delete", "b-restic", "--confirm")
	require.NoError(t, err, out)
	f.retry("the backup is deleted", func(ctx context.Context) error {
		err := f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: "b-restic"}, &velerov1.Backup{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists, or cannot be read: %w", err)
		}
		return nil
	})
	resticDir := filepath.Join(f.bucket, "restic", shop)
	require.Greater(t, sizeOf(t, resticDir), int64(large))
	for _, name := range names {
		began := time.Now().Truncate(time.Second)
		f.makeDue(name)
		of := f.repository(name, "is maintained", attempts(1))
		one := of.Status.RecentMaintenance[0]
		require.Equal(t, velerov1.BackupRepositoryMaintenanceSucceeded, one.Result, one.Message)
		require.False(t, one.StartTimestamp.Time.Before(began))
		require.Equal(t, one.CompleteTimestamp, of.Status.LastMaintenanceTime)
		require.Empty(t, of.Annotations)
	}
	require.Less(t, sizeOf(t, resticDir), int64(large/2), "prune frees the space of deleted backups")

	// The error of an attempt is in the history; the next one follows later.
	away := filepath.Join(t.TempDir(), "kopia") // a directory that Velero does not know makes the location Unavailable
	require.NoError(t, os.Rename(filepath.Join(f.bucket, "kopia"), away))
	f.makeDue(names["kopia"])
	of := f.repository(names["kopia"], "has failed", attempts(2))
	require.Equal(t, velerov1.BackupRepositoryMaintenanceFailed, of.Status.RecentMaintenance[1].Result)
	require.Contains(t, of.Status.RecentMaintenance[1].Message, "there is no repository of kopia at")
	out, err = f.cleat("repo", "get")
	require.NoError(t, err, out)
	require.Regexp(t, names["kopia"]+" +NotReady .*there is no repository of kopia at", out)

	// One that is NotReady is looked at, and Ready when it can be used.
	before := of.DeepCopy()
	of.Status.Phase, of.Status.Message = velerov1.BackupRepositoryPhaseNotReady, "somebody says so"
	require.NoError(t, f.client.Patch(t.Context(), of, client.MergeFrom(before)))
	of = f.repository(names["kopia"], "is checked", func(of *velerov1.BackupRepository) bool {
		return strings.Contains(of.Status.Message, "there is no repository of kopia at")
	})
	require.Equal(t, velerov1.BackupRepositoryPhaseNotReady, of.Status.Phase)
	require.NoError(t, os.Rename(away, filepath.Join(f.bucket, "kopia")))
	before = of.DeepCopy()
	of.Status.Message = "somebody says so"
	require.NoError(t, f.client.Patch(t.Context(), of, client.MergeFrom(before)))
	f.repository(names["kopia"], "is Ready again", func(of *velerov1.BackupRepository) bool {
		return of.Status.Phase == velerov1.BackupRepositoryPhaseReady && of.Status.Message == ""
	})
}

// TestAcceptVolumes_MaintenanceAlone has a data mover that cannot maintain a repository beside loads. Maintenance waits
// for the load that is moved, and the next load waits for maintenance and says so. Servers are killed while it waits
// and while it works. A Job of Velero's for the repository is waited for.
func TestAcceptVolumes_MaintenanceAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.config = "apiVersion: cleat.dev/v1\nmaintenance: {patience: 8m}\n"
	s.agents()
	for _, node := range s.nodes {
		s.hold(node)
	}
	first, second := s.backup("first", s.nodes[0]), s.backup("second", s.nodes[1])
	s.create(first)
	s.awaitOperations()
	s.moving(first.Name)
	name := s.namespace + "-default-restic"
	s.repository(name, "is Ready", func(of *velerov1.BackupRepository) bool {
		return of.Status.Phase == velerov1.BackupRepositoryPhaseReady
	})
	dir := s.repositoryDir()

	other := &batchv1.Job{ // as Velero makes it; nothing runs it
		ObjectMeta: metav1.ObjectMeta{Name: "of-velero", Labels: map[string]string{velerov1.RepositoryNameLabel: name}},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}},
	}
	s.create(other)
	serve := func() *agent {
		return s.start("server", "server", "--kubeconfig", s.plane.Get(t).Kubeconfig, "--namespace", s.namespace,
			"--plugin-dir", s.plugins, "--metrics-address", "0", "--profiler-address", "", "--scratch-dir", t.TempDir(),
			"--leader-elect-lease-duration", "2s", "--log-level", "debug", "--config", s.configFile(),
			"--disable-controllers", "backup-operations") // the backup of the loads has none, and would end
	}
	servers := []*agent{serve(), serve()}
	s.makeDue(name)
	s.repository(name, "has a frequency", func(of *velerov1.BackupRepository) bool {
		return of.Spec.MaintenanceFrequency.Duration == 7*24*time.Hour
	})
	time.Sleep(2 * time.Second)
	require.Nil(t, run.MaintenanceOf(s.repository(name, "exists", attempts(0))), "Velero's job has not ended")
	require.NoError(t, s.client.Delete(t.Context(), other, client.PropagationPolicy(metav1.DeletePropagationBackground)))

	claimed := func(of *velerov1.BackupRepository) bool { return run.MaintenanceOf(of) != nil }
	job := run.MaintenanceOf(s.repository(name, "is claimed", claimed)).Job
	s.create(second)
	waits := func() (bool, error) {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(second), second)
		return second.Status.Message == run.WaitsForMaintenance, err
	}
	s.eventually("the second load waits", waits)
	time.Sleep(3 * time.Second) // it would begin meanwhile
	require.NoFileExists(t, filepath.Join(dir, "maintained"), "maintenance waits for the first load")
	for _, server := range servers {
		server.kill()
	}
	servers = []*agent{serve(), serve()}
	hold := filepath.Join(dir, "hold")
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	s.release(s.nodes[0])
	begun := func(times int) func() (bool, error) {
		return func() (bool, error) {
			text, err := os.ReadFile(filepath.Join(dir, "maintained"))
			return strings.Count(string(text), "begun") == times, err
		}
	}
	s.eventually("maintenance begins", begun(1))
	for _, server := range servers {
		server.kill()
	}
	serve()
	s.eventually("maintenance begins again", begun(2))
	require.Equal(t, job, run.MaintenanceOf(s.repository(name, "is claimed", claimed)).Job)
	still, err := waits()
	require.NoError(t, err)
	require.True(t, still, second.Status)
	require.Equal(t, velerov1.LoadPhaseInProgress, second.Status.Phase)
	require.NoError(t, os.Remove(hold))
	of := s.repository(name, "is maintained", attempts(1))
	require.Equal(t, velerov1.BackupRepositoryMaintenanceSucceeded, of.Status.RecentMaintenance[0].Result,
		of.Status.RecentMaintenance[0].Message)
	require.Equal(t, "7 bytes were freed", of.Status.RecentMaintenance[0].Message)
	s.release(s.nodes[1])
	for _, load := range []*velerov1.PodVolumeBackup{first, second} {
		s.eventually("the load "+load.Name+" is completed", func() (bool, error) {
			err := s.client.Get(t.Context(), client.ObjectKeyFromObject(load), load)
			return load.Status.Phase == velerov1.LoadPhaseCompleted && load.Status.Message == "", err
		})
	}
}

// awaitOperations puts the Backup of loads that are created by hand in the phase in which a backup stays while servers
// come and go.
func (s *site) awaitOperations() {
	s.t.Helper()
	require.NoError(s.t, s.client.Patch(s.t.Context(), s.owning(false), client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"phase":"WaitingForPluginOperations"}}`))))
}

// moving waits until the data of a PodVolumeBackup is being moved.
func (s *site) moving(name string) {
	s.t.Helper()
	s.eventually("load "+name+" is moved", func() (bool, error) {
		load := new(velerov1.PodVolumeBackup)
		err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, load)
		return load.Status.Phase == velerov1.LoadPhaseInProgress && load.Status.Progress.BytesDone > 0, err
	})
}

// repositoryDir returns the directory of the repository of the location "default".
func (s *site) repositoryDir() string {
	s.t.Helper()
	of := new(velerov1.BackupStorageLocation)
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "default"}, of))
	return filepath.Join(of.Spec.Config["path"], "bucket", "restic", s.namespace)
}

// jobSettings is the name of the ConfigMap of maintenance jobs.
const jobSettings = "of-jobs"

// configureJobs creates the ConfigMap of maintenance jobs.
func (m *machine) configureJobs() {
	m.t.Helper()
	m.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: jobSettings},
		Data: map[string]string{
			"global": `{"podResources": {"cpuRequest": "0", "memoryRequest": "16Mi", "memoryLimit": "1Gi"},
				"podLabels": {"team": "storage"}, "keepLatestMaintenanceJobs": 2}`,
			m.shop + "-default-kopia": `{"keepLatestMaintenanceJobs": 1}`,
		},
	})
}

// maintained has the server's Jobs maintain a repository: once, once while the server is killed, and once in vain.
func (m *machine) maintained(name string) {
	t := m.t
	t.Helper()
	m.makeDue(name)
	of := m.repository(name, "is maintained", attempts(1))
	require.Equal(t, velerov1.BackupRepositoryMaintenanceSucceeded, of.Status.RecentMaintenance[0].Result,
		of.Status.RecentMaintenance[0].Message)
	jobs := m.jobs(name)
	require.Len(t, jobs, 1)
	require.Equal(t, jobs[0].CreationTimestamp.UTC(), of.Status.RecentMaintenance[0].StartTimestamp.UTC())
	template := jobs[0].Spec.Template
	require.Equal(t, "storage", template.Labels["team"])
	require.Equal(t, "1Gi", template.Spec.Containers[0].Resources.Limits.Memory().String())
	require.NotContains(t, template.Labels, "deploy", "no Deployment selects the pod")

	m.makeDue(name)
	job := run.MaintenanceOf(m.repository(name, "is claimed", func(of *velerov1.BackupRepository) bool {
		return run.MaintenanceOf(of) != nil
	})).Job
	require.NoError(t, m.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(m.namespace),
		client.MatchingLabels{"deploy": "velero"}, client.GracePeriodSeconds(0)))
	of = m.repository(name, "is maintained", attempts(2))
	require.Equal(t, velerov1.BackupRepositoryMaintenanceSucceeded, of.Status.RecentMaintenance[1].Result,
		of.Status.RecentMaintenance[1].Message)
	m.eventually("one job is kept", func() (bool, error) {
		jobs = m.jobs(name)
		return len(jobs) == 1, nil
	})
	require.Equal(t, job, jobs[0].Name)

	dir := filepath.Join(m.bucket, string(of.Spec.RepositoryType))
	away := filepath.Join(t.TempDir(), "away") // not in the bucket, where it would make the location invalid
	require.NoError(t, os.Rename(dir, away))
	m.makeDue(name)
	of = m.repository(name, "has failed", attempts(3))
	require.Equal(t, velerov1.BackupRepositoryMaintenanceFailed, of.Status.RecentMaintenance[2].Result)
	require.Contains(t, of.Status.RecentMaintenance[2].Message, "there is no repository")
	require.NoError(t, os.Rename(away, dir))
}

// jobs returns the Jobs that maintain a repository.
func (m *machine) jobs(name string) []batchv1.Job {
	m.t.Helper()
	var list batchv1.JobList
	require.NoError(m.t, m.client.List(m.t.Context(), &list, client.InNamespace(m.namespace),
		client.MatchingLabels{velerov1.RepositoryNameLabel: name}))
	return list.Items
}
