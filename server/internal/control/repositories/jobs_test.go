package repositories

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
)

// serverPod is a pod of a server as the API server has it.
func serverPod() *corev1.Pod {
	token := corev1.VolumeMount{Name: "kube-api-access-x1", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	plugins := corev1.VolumeMount{Name: "plugins", MountPath: "/plugins"}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "velero-1", Labels: map[string]string{"deploy": "velero",
				"azure.workload.identity/use": "true"},
			Annotations: map[string]string{"iam.amazonaws.com/role": "r", "prometheus.io/scrape": "true"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "velero",
			InitContainers: []corev1.Container{{Name: "plugin", Image: "p", VolumeMounts: []corev1.VolumeMount{plugins, token}}},
			Containers: []corev1.Container{
				{Name: "sidecar", Image: "s"},
				{
					Name: "velero", Image: "cleat:v1", Command: []string{"/velero"}, Args: []string{"server", "--features=EnableCSI"},
					VolumeMounts:  []corev1.VolumeMount{plugins, token},
					Env:           []corev1.EnvVar{{Name: "VELERO_NAMESPACE", Value: namespace}},
					LivenessProbe: &corev1.Probe{}, ReadinessProbe: &corev1.Probe{},
					Ports: []corev1.ContainerPort{{ContainerPort: 8085}},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("4")}},
				},
			},
			Volumes:     []corev1.Volume{{Name: "plugins"}, {Name: "kube-api-access-x1"}},
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}, {Key: "team"}},
		},
	}
}

func TestJobIsMadeFromThePodOfTheServer(t *testing.T) {
	t.Parallel()
	of := &velerov1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-l-kopia", UID: "u"}}
	jobs := &Jobs{Cluster: &run.Cluster{Namespace: namespace}, Pod: serverPod(), Timeout: time.Hour}
	made := jobs.job(of, "j", maintenance.Job{PriorityClassName: "low"})
	require.Equal(t, map[string]string{"velero.io/repo-name": "shop-l-kopia"}, made.Labels)
	require.Equal(t, int64(3600), *made.Spec.ActiveDeadlineSeconds)
	require.Zero(t, *made.Spec.BackoffLimit)
	template := made.Spec.Template
	require.Equal(t, map[string]string{"velero.io/repo-name": "shop-l-kopia", "azure.workload.identity/use": "true"},
		template.Labels)
	require.Equal(t, map[string]string{"iam.amazonaws.com/role": "r"}, template.Annotations)
	spec := template.Spec
	require.Empty(t, spec.NodeName)
	require.Equal(t, corev1.RestartPolicyNever, spec.RestartPolicy)
	require.Equal(t, []corev1.Toleration{{Key: "team"}}, spec.Tolerations)
	require.Equal(t, []corev1.Volume{{Name: "plugins"}}, spec.Volumes)
	require.Equal(t, "low", spec.PriorityClassName)
	require.Len(t, spec.Containers, 1)
	c := spec.Containers[0]
	require.Equal(t, []string{"server", "--features=EnableCSI", "--maintain-repository=shop-l-kopia"}, c.Args)
	require.Nil(t, c.LivenessProbe)
	require.Empty(t, c.Ports)
	require.Empty(t, c.Resources)
	for _, container := range append(spec.InitContainers, c) {
		require.Equal(t, []corev1.VolumeMount{{Name: "plugins", MountPath: "/plugins"}}, container.VolumeMounts)
	}
	require.Equal(t, serverPod(), jobs.Pod, "the pod of the server is not changed")

	own := jobs.job(of, "j", maintenance.Job{
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}},
	}).Spec.Template
	require.Equal(t, map[string]string{"velero.io/repo-name": "shop-l-kopia", "a": "b"}, own.Labels)
	require.Equal(t, map[string]string{"c": "d"}, own.Annotations)
	terms := own.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Equal(t, "disk", terms[0].MatchExpressions[1].Key)
}

func TestLongNamesAreThoseOfVelero(t *testing.T) {
	t.Parallel()
	of := &velerov1.BackupRepository{}
	of.Name = "a-namespace-with-a-name-that-is-as-long-as-they-can-be-in-all-default-kopia"
	require.Len(t, labelOf(of), 56, "hexadecimal SHA3-224")
	require.Regexp(t, "^repo-[0-9a-f]{8}-maintain-job-1772625600000$", jobName(of, time.UnixMilli(1772625600000)))
	of.Name = "shop-l-kopia"
	require.Equal(t, "shop-l-kopia", labelOf(of))
	require.Equal(t, "shop-l-kopia-maintain-job-1772625600000", jobName(of, time.UnixMilli(1772625600000)))
}

func TestResultOfAJob(t *testing.T) {
	t.Parallel()
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded",
		Message: "Job was active longer than specified deadline"}
	for name, test := range map[string]struct {
		job  batchv1.JobCondition
		end  *corev1.ContainerStateTerminated // nil without a pod
		want string
	}{
		"it says what it has done": {
			batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
			&corev1.ContainerStateTerminated{Message: "7 bytes were freed"}, "7 bytes were freed",
		},
		"it says why it has failed": {
			failed, &corev1.ContainerStateTerminated{ExitCode: 1, Message: "log\n" + ErrorPrefix + "it is locked"},
			"it is locked",
		},
		"it was killed for its memory": {
			failed, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
			"the pod was killed for its memory; raise memoryLimit of podResources in the ConfigMap of " +
				"--repo-maintenance-job-configmap",
		},
		"it was killed for its memory as it started": {
			failed, &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "init was OOM-killed"},
			"the pod was killed for its memory; raise memoryLimit of podResources in the ConfigMap of " +
				"--repo-maintenance-job-configmap",
		},
		"it cannot be started": {
			failed, &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "no such file"},
			"the pod could not be started: no such file",
		},
		"it crashes": {
			failed, &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: "panic"},
			"the pod has ended with exit status 2 (Error)",
		},
		"its pod is gone": {failed, nil, "DeadlineExceeded: Job was active longer than specified deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs := &Jobs{Cluster: newCluster(t)}
			job := &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "j"},
				Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{test.job}},
			}
			if test.end != nil {
				require.NoError(t, jobs.Create(t.Context(), &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: map[string]string{"batch.kubernetes.io/" +
						"job-name": "j"}},
					Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
						Terminated: test.end}}}},
				}))
			}
			said, err := jobs.Result(t.Context(), attemptOf(job))
			require.NoError(t, err)
			require.Equal(t, test.want, said)
		})
	}
}

func newCluster(t *testing.T) *run.Cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(velerov1.AddToScheme(scheme), velerov2alpha1.AddToScheme(scheme),
		corev1.AddToScheme(scheme), batchv1.AddToScheme(scheme)))
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	return &run.Cluster{Client: c, Live: c, Namespace: namespace}
}

func TestDueAfterFailures(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	attempt := func(result velerov1.BackupRepositoryMaintenanceResult, at time.Duration,
	) velerov1.BackupRepositoryMaintenanceStatus {
		return velerov1.BackupRepositoryMaintenanceStatus{Result: result, CompleteTimestamp: run.Timestamp(noon.Add(at))}
	}
	const succeeded, failed = velerov1.BackupRepositoryMaintenanceSucceeded, velerov1.BackupRepositoryMaintenanceFailed
	for name, test := range map[string]struct {
		last   *metav1.Time
		recent []velerov1.BackupRepositoryMaintenanceStatus
		want   time.Time
	}{
		"never maintained": {nil, nil, time.Time{}},
		"maintained":       {run.Timestamp(noon), nil, noon.Add(time.Hour)},
		"one failure": {run.Timestamp(noon.Add(-2 * time.Hour)), []velerov1.BackupRepositoryMaintenanceStatus{
			attempt(succeeded, -2*time.Hour), attempt(failed, 0)}, noon.Add(5 * time.Minute)},
		"three failures": {nil, []velerov1.BackupRepositoryMaintenanceStatus{
			attempt(failed, -2*time.Hour), attempt(failed, -time.Hour), attempt(failed, 0)}, noon.Add(20 * time.Minute)},
		"a success after failures": {run.Timestamp(noon), []velerov1.BackupRepositoryMaintenanceStatus{
			attempt(failed, -2*time.Hour), attempt(succeeded, 0)}, noon.Add(time.Hour)},
		"a failure before it is due again": {run.Timestamp(noon), []velerov1.BackupRepositoryMaintenanceStatus{
			attempt(failed, time.Minute)}, noon.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := &velerov1.BackupRepository{}
			of.Spec.MaintenanceFrequency.Duration = time.Hour
			of.Status.LastMaintenanceTime, of.Status.RecentMaintenance = test.last, test.recent
			require.Equal(t, test.want, (&Controller{}).due(of).UTC())
		})
	}
}

// stuckRunner has a job that does not begin.
type stuckRunner struct {
	*Jobs
	began   time.Time
	removed bool
}

func (s *stuckRunner) Attempts(context.Context, *velerov1.BackupRepository) ([]Attempt, error) {
	if s.removed {
		return nil, nil
	}
	return []Attempt{{Name: "j", Began: s.began}}, nil
}

func (s *stuckRunner) Waits(context.Context, Attempt) (string, error) { return "pod p is pending", nil }

func (s *stuckRunner) Remove(context.Context, *velerov1.BackupRepository, Attempt) error {
	s.removed = true
	return nil
}

func TestWhatKeepsARepositoryFromBeingMaintainedIsSaid(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		location velerov1.BackupStorageLocation
		change   func(*Controller, *velerov1.BackupRepository)
		told     string // a part of what is said
		history  string // a part of the message of the attempt that failed
	}{
		"the location is away": {
			location: velerov1.BackupStorageLocation{Status: velerov1.BackupStorageLocationStatus{
				Phase: velerov1.BackupStorageLocationPhaseUnavailable, Message: "no route"}},
			told: "l is in Unavailable status: no route",
		},
		"the location is read-only": {
			location: velerov1.BackupStorageLocation{Spec: velerov1.BackupStorageLocationSpec{
				AccessMode: velerov1.BackupStorageLocationAccessModeReadOnly}},
			told: "backup storage location l is read-only",
		},
		"there is no mover": {
			change: func(c *Controller, _ *velerov1.BackupRepository) {
				c.Mover = func(name string) (bool, error) { return false, errors.New("there is no plugin " + name) }
			},
			told: "add the plugin of cleat.dev/kopia to its plugin directory: there is no plugin cleat.dev/kopia",
		},
		"the claim names a job of something else": {
			change: func(c *Controller, of *velerov1.BackupRepository) {
				_ = run.SetMaintenance(of, &run.Maintenance{Job: "other", Since: now})
				_ = c.Create(context.Background(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}})
			},
			history: "there is a Job other of something else",
		},
		"the settings have a mistake": {
			change: func(c *Controller, _ *velerov1.BackupRepository) {
				c.Jobs = "m"
				_ = c.Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"},
					Data: map[string]string{"global": "{"}})
			},
			history: "the settings of jobs are not valid: ConfigMap velero/m: global: ",
		},
		"the job does not begin": {
			change: func(c *Controller, of *velerov1.BackupRepository) {
				c.Runner = &stuckRunner{began: now.Add(-11 * time.Minute)}
				_ = run.SetMaintenance(of, &run.Maintenance{Job: "j", Since: now.Add(-11 * time.Minute)})
			},
			history: "job j has not begun within 10m0s: pod p is pending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			test.location.Namespace, test.location.Name = namespace, "l"
			if test.location.Status.Phase == "" {
				test.location.Status.Phase = velerov1.BackupStorageLocationPhaseAvailable
			}
			of := &velerov1.BackupRepository{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-l-kopia"},
				Spec: velerov1.BackupRepositorySpec{VolumeNamespace: "shop", BackupStorageLocation: "l",
					RepositoryType: velerov1.RepositoryTypeKopia, MaintenanceFrequency: metav1.Duration{Duration: time.Hour}},
				Status: velerov1.BackupRepositoryStatus{Phase: velerov1.BackupRepositoryPhaseReady},
			}
			c := &Controller{
				Cluster: cluster, Runner: &Jobs{Cluster: cluster, Pod: serverPod()}, AtOnce: 1, StartTime: 10 * time.Minute,
				Mover: func(string) (bool, error) { return false, nil }, Log: hclog.NewNullLogger(),
				Now: func() time.Time { return now },
			}
			if test.change != nil {
				test.change(c, of)
			}
			require.NoError(t, errors.Join(cluster.Create(t.Context(), &test.location), cluster.Create(t.Context(), of)))
			for range 3 {
				_, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(of)})
				require.NoError(t, err)
			}
			require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(of), of))
			require.Nil(t, run.MaintenanceOf(of))
			require.Contains(t, c.told[of.Name], test.told)
			if test.history == "" {
				require.Empty(t, of.Status.RecentMaintenance)
				return
			}
			require.Len(t, of.Status.RecentMaintenance, 1)
			require.Equal(t, velerov1.BackupRepositoryMaintenanceFailed, of.Status.RecentMaintenance[0].Result)
			require.Contains(t, of.Status.RecentMaintenance[0].Message, test.history)
		})
	}
}
