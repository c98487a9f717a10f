package install_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// veleroDeployment returns a Deployment of Velero's server.
func veleroDeployment(s *site.Site, image string, args ...string) *appsv1.Deployment {
	labels := map[string]string{"deploy": "velero", "component": "velero"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "velero", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(labels)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)}, Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "plugin", Image: "example.io/plugin:v1"}},
				Containers:     []corev1.Container{{Name: "velero", Image: image, Command: []string{"/velero"}, Args: args}},
			}},
		},
	}
}

// TestAcceptInstall_TakeOverCheck reports everything in use that a take-over would miss. It then takes over only if
// forced.
func TestAcceptInstall_TakeOverCheck(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	_, errs, err := s.Run("takeover", "check", "--timeout", "1ms")
	require.Error(t, err)
	require.Contains(t, errs, "no Deployment with the label component=velero has a container velero")

	velero := veleroDeployment(s, "velero/velero:v1.99.0", "server", "--features=EnableAPIGroupVersions,Future",
		"--uploader-type=kopia",
		"--from-the-future=1", "--sparkle", "bright", "--log-level=debug", "-n", s.Namespace)
	velero.Labels["app.kubernetes.io/managed-by"] = "Helm"
	require.NoError(t, s.Client.Create(t.Context(), velero))
	labels := map[string]string{"role": "node-agent"}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.Namespace, Name: name} }
	for _, object := range []client.Object{
		&appsv1.DaemonSet{ObjectMeta: meta("node-agent"), Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{NodeSelector: map[string]string{"disks": "fast"}, Containers: []corev1.Container{{
					Name: "node-agent", Image: "velero/velero:v1.99.0", Command: []string{"/velero"},
					Args: []string{"node-agent", "server", "--sparkle", "bright", "--log-level=debug"},
					Env:  []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "proxy"}},
				}}}},
		}},
		&velerov1.BackupRepository{ObjectMeta: meta("shop-default-kopia"),
			Spec: velerov1.BackupRepositorySpec{VolumeNamespace: "shop", BackupStorageLocation: "default",
				RepositoryType: "kopia"}},
		&velerov1.BackupRepository{ObjectMeta: meta("blog-default-restic"),
			Spec: velerov1.BackupRepositorySpec{VolumeNamespace: "blog", BackupStorageLocation: "default",
				RepositoryType: "restic"}},
		&velerov1.PodVolumeBackup{ObjectMeta: meta("open")},
		&velerov1.PodVolumeBackup{ObjectMeta: meta("ended"),
			Status: velerov1.PodVolumeBackupStatus{LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseCompleted}}},
		&velerov2alpha1.DataUpload{ObjectMeta: meta("open")},
		&velerov2alpha1.DataUpload{ObjectMeta: meta("ended"),
			Status: velerov2alpha1.DataUploadStatus{LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseCompleted}}},
		&velerov2alpha1.DataUpload{ObjectMeta: meta("vendor"), Spec: velerov2alpha1.DataUploadSpec{DataMover: "vendor"},
			Status: velerov2alpha1.DataUploadStatus{LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseCompleted}}},
		&velerov1.Schedule{ObjectMeta: meta("nightly"), Spec: velerov1.ScheduleSpec{Schedule: "@daily",
			Template: velerov1.BackupSpec{DataMover: "vendor"}}},
		&velerov1.Backup{ObjectMeta: meta("running"), Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseInProgress}},
		&velerov1.Restore{ObjectMeta: meta("restoring"),
			Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseInProgress}},
	} {
		require.NoError(t, s.Client.Create(t.Context(), object))
	}
	answered := make(chan error, 1)
	go func() {
		answered <- s.AnswerAsVelero(t.Context(), "v1.99.0",
			velerov1.PluginInfo{Name: "example.io/a", Kind: "BackupItemActionV2"}, velerov1.PluginInfo{Name: "example.io/b",
				Kind: "BackupItemActionV99"})
	}()
	out, errs, err := s.Run("takeover", "check", "--timeout", "5m")
	require.Error(t, err)
	require.NoError(t, <-answered)
	require.Contains(t, errs, "a take-over of namespace "+s.Namespace+" would miss 6 things")
	require.Equal(t, `Cleat would miss:
- Velero is v1.99.0; cleat does what Velero v1.18.3 does, and knows nothing newer
- plugin example.io/b is of kind BackupItemActionV99, which cleat does not know
- server flag --from-the-future=1 is unknown, and is left out
- server flag --sparkle is unknown, and is left out
- flag --features: Future is unknown and has no effect; known are EnableAPIGroupVersions and EnableCSI
- node agent flag --sparkle is unknown, and is left out
To know:
- plugin image example.io/plugin:v1 runs unmodified
- deployment velero is managed by Helm, which must not scale it up again while cleat runs
- daemonset node-agent runs Velero's node agents: it is stopped, and daemonset cleat-node-agent runs cleat's in their place, with the data movers ghcr.io/cleat-dev/cleat-kopia:latest, ghcr.io/cleat-dev/cleat-restic:latest
- the node agents of daemonset node-agent are not privileged; cleat's move volumes that are block devices only if they are: use --privileged-node-agent if there are some
- repository blog-default-restic (restic) of namespace blog: cleat's node agents with the data mover cleat.dev/restic restore from it and back up into it, unless its location is listed above
- repository shop-default-kopia (kopia) of namespace shop: cleat's node agents with the data mover cleat.dev/kopia restore from it and back up into it, unless its location is listed above
- the repositories of volumes have the password that every Velero has, which is public: whoever reads the bucket reads the volumes, and whoever writes it can replace them; see "Password of repositories" in server/docs/node-agents.md for how to change it
- objects of kind DataUpload that have not ended: 1; a take-over lets Velero's node agents end them, for the time of --load-timeout, and then cancels them
- objects of kind PodVolumeBackup that have not ended: 1; a take-over lets Velero's node agents end them, for the time of --load-timeout, and then cancels them
- backup running is in progress: Velero stops in the middle of it, and cleat takes it up
- restore restoring is in progress: Velero stops in the middle of it, and cleat takes it up
`, out)

	_, errs, err = s.Run("takeover", "start", "--timeout", "1ms")
	require.Error(t, err)
	require.Contains(t, errs, "--force takes over nevertheless")
	require.Equal(t, int32(1), *awaitReplicas(s, "velero", 1).Spec.Replicas)
	_, errs, err = s.Run("takeover", "back")
	require.Error(t, err)
	require.Contains(t, errs, "in progress: backup running, restore restoring, PodVolumeBackup open, DataUpload open; "+
		"Velero marks them as Failed")

	out = s.Must("takeover", "start", "--timeout", "1ms", "--force", "--wait=false", "--image",
		"registry.example.io/cleat:v1")
	require.Contains(t, out, "lease/cleat-server released: cleat works\n")
	require.Contains(t, out, "podvolumebackup/open cancelled: it did not end in time\n")
	require.Contains(t, out, "dataupload/open has not ended; cleat's node agents mark it as Failed\n")
	var before, agents appsv1.DaemonSet
	require.NoError(t, s.Client.Get(t.Context(), s.Key("node-agent"), &before))
	require.Equal(t, map[string]string{"cleat.dev/taken-over": "matches-no-node"}, before.Spec.Template.Spec.NodeSelector)
	require.NoError(t, s.Client.Get(t.Context(), s.Key("cleat-node-agent"), &agents))
	pod := &agents.Spec.Template.Spec
	require.Equal(t, map[string]string{"disks": "fast", "kubernetes.io/os": "linux"}, pod.NodeSelector)
	require.Equal(t, []string{"node-agent", "server", "--log-level=debug"}, pod.Containers[0].Args)
	require.Contains(t, pod.Containers[0].Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "proxy"})
	require.Len(t, pod.InitContainers, 2)
	awaitReplicas(s, "velero", 0)
	require.Equal(t, strings.Fields("server --features=EnableAPIGroupVersions,Future --uploader-type=kopia "+
		"--log-level=debug -n "+s.Namespace),
		awaitReplicas(s, "cleat", 1).Spec.Template.Spec.Containers[0].Args)
	s.Must("takeover", "back", "--force", "--wait=false")
	awaitReplicas(s, "velero", 1)
	require.NoError(t, s.Client.Get(t.Context(), s.Key("node-agent"), &before))
	require.Equal(t, map[string]string{"disks": "fast"}, before.Spec.Template.Spec.NodeSelector)
	s.AwaitGone(&appsv1.DaemonSet{}, "cleat-node-agent")
}

// veleroAgents returns a DaemonSet of Velero's node agents.
func veleroAgents(s *site.Site, args ...string) *appsv1.DaemonSet {
	labels := map[string]string{"role": "node-agent"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "node-agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{NodeSelector: map[string]string{"disks": s.Namespace}, Containers: []corev1.Container{{
					Name: "node-agent", Image: "velero/velero:v1.18.3", Command: []string{"/velero"},
					Args: append([]string{"node-agent", "server"}, args...),
				}}}},
		},
	}
}

// TestAcceptInstall_TakeOverChecksFirst has the check find what agents and server would refuse, and what data movers
// cannot do. A take-over that does not become ready leaves Velero as it was.
func TestAcceptInstall_TakeOverChecksFirst(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.Namespace, Name: name} }
	location := func(name, provider string, config map[string]string) *velerov1.BackupStorageLocation {
		return &velerov1.BackupStorageLocation{ObjectMeta: meta(name), Spec: velerov1.BackupStorageLocationSpec{
			Provider: provider, Config: config,
			StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: "b"}}}}
	}
	secret := location("secret", "aws", map[string]string{"region": "eu-central-1"})
	secret.Spec.Credential = &velerov1.SecretKeySelector{Name: "none", Key: "cloud"}
	agents := &corev1.ConfigMap{ObjectMeta: meta("agents"),
		Data: map[string]string{"a": `{"loadConcurrency": {"globalConfig": "many"}, "newer": 1}`}}
	objects := []client.Object{
		veleroDeployment(s, "velero/velero:v1.18.3", "server", "--repo-maintenance-job-configmap=jobs",
			"--backup-repository-configmap=repositories", "--global-backup-volume-policies-configmap=gone",
			"--restore-resource-priorities=pods,-,-"),
		veleroAgents(s, "--node-agent-configmap=agents", "--data-mover-prepare-timeout=0s"), agents,
		&corev1.ConfigMap{ObjectMeta: meta("jobs"), Data: map[string]string{"global": `{"newer": 1}`,
			"shop-google-kopia": `{"keepLatestMaintenanceJobs": -1}`}},
		&corev1.ConfigMap{ObjectMeta: meta("repositories"), Data: map[string]string{"kopia": `{"cacheLimitMB": "lots"}`}},
		location("google", "gcp", nil), location("azure", "velero.io/azure", nil), secret,
		location("region", "velero.io/aws", nil),
		&velerov1.VolumeSnapshotLocation{ObjectMeta: meta("disks"), Spec: velerov1.VolumeSnapshotLocationSpec{
			Provider: "gcp", Credential: &velerov1.SecretKeySelector{Name: "none", Key: "cloud"}}},
		&velerov1.BackupRepository{ObjectMeta: meta("shop-google-kopia"), Spec: velerov1.BackupRepositorySpec{
			VolumeNamespace: "shop", BackupStorageLocation: "google", RepositoryType: "kopia",
			RepositoryConfig: map[string]string{"fullMaintenanceInterval": "weekly"}}},
	}
	for _, object := range objects {
		require.NoError(t, s.Client.Create(t.Context(), object))
	}
	const instead = "; stay with Velero, or back up the volumes by snapshots, or into a location in S3, " +
		"before you take over"
	out, _, err := s.Run("takeover", "check", "--timeout", "1ms")
	require.Error(t, err)
	for _, line := range []string{
		"- the server would refuse: --restore-resource-priorities: ",
		"- the server would refuse: ConfigMap " + s.Namespace + "/jobs: shop-google-kopia: keepLatestMaintenanceJobs is -1, want 0",
		"- the server would refuse: ConfigMap " + s.Namespace + `/repositories: kopia: cacheLimitMB is "lots", want a number`,
		"- the server would refuse: ConfigMap " + s.Namespace + "/gone, see --global-backup-volume-policies-configmap, does not " +
			"exist",
		`- the server would refuse: BackupRepository shop-google-kopia: spec.repositoryConfig: fullMaintenanceInterval is "weekly"`,
		"- the server warns: ConfigMap " + s.Namespace + "/jobs: global: newer is unknown and has no effect",
		"- the node agent would not start: --data-mover-prepare-timeout 0s: want more than 0",
		"- the data of volumes in backup storage location google (gcp) is neither restored nor stored: ",
		"- the data of volumes in backup storage location azure (velero.io/azure) is neither restored nor stored: ",
		"- the data of volumes in backup storage location region (velero.io/aws) is neither restored nor stored: ",
		"- the server would refuse backup storage location secret: spec.credential: there is no Secret " + s.Namespace + "/none",
		"- the server would refuse volume snapshot location disks: spec.credential: there is no Secret " + s.Namespace + "/none",
	} {
		require.Contains(t, out, line)
	}
	require.Equal(t, 3, strings.Count(out, instead))
	require.NotContains(t, out, "storage location secret (aws)", "the data movers can use it")
	require.NotContains(t, out, "misses nothing")

	// Mended, except for the clouds, which are not used any more.
	for _, object := range objects {
		require.NoError(t, s.Client.Delete(t.Context(), object))
	}
	for _, object := range []client.Object{
		veleroDeployment(s, "velero/velero:v1.18.3", "server"), veleroAgents(s, "--node-agent-configmap=agents"), agents,
	} {
		object.SetResourceVersion("")
		require.NoError(t, s.Client.Create(t.Context(), object))
	}
	out, _, err = s.Run("takeover", "check", "--timeout", "1ms")
	require.Error(t, err)
	require.Contains(t, out, "- the node agent would refuse: ConfigMap "+s.Namespace+"/agents: ")
	agents.Data["a"] = `{"loadConcurrency": {"globalConfig": 2}, "newer": 1, "backupPVC": {"x": {"secretNames": ["s"]}}}`
	require.NoError(t, s.Client.Update(t.Context(), agents))
	out = s.Must("takeover", "check", "--timeout", "1ms")
	require.Contains(t, out,
		"- the node agent warns: ConfigMap "+s.Namespace+"/agents: newer is unknown and has no effect")
	require.Contains(t, out, "A take-over of namespace "+s.Namespace+" misses nothing.")

	// No pod becomes ready here.
	var before, after appsv1.DaemonSet
	require.NoError(t, s.Client.Get(t.Context(), s.Key("node-agent"), &before))
	out, errs, err := s.Run("takeover", "start", "--timeout", "1ms", "--image", "registry.example.io/cleat:v1",
		"--ready-timeout", "3s")
	require.Error(t, err)
	require.Contains(t, errs, "cleat is not ready, so it is removed, and nothing of Velero was stopped: ")
	require.Contains(t, out, "daemonset/cleat-node-agent applied\ndeployment/cleat applied\ndeployment/cleat deleted\n"+
		"daemonset/cleat-node-agent deleted\n")
	require.NotContains(t, out, "scaled")
	require.NotContains(t, out, "daemonset/node-agent stopped")
	require.Equal(t, int32(1), *awaitReplicas(s, "velero", 1).Spec.Replicas)
	require.NoError(t, s.Client.Get(t.Context(), s.Key("node-agent"), &after))
	require.Equal(t, before.Spec, after.Spec)
	require.Empty(t, after.Annotations["cleat.dev/taken-over-node-selector"])
	s.AwaitGone(&appsv1.Deployment{}, "cleat")
	s.AwaitGone(&appsv1.DaemonSet{}, "cleat-node-agent")
	s.AwaitGone(&coordinationv1.Lease{}, "cleat-server")
}
