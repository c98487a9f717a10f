package repositories

import (
	"cmp"
	"context"
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
	"github.com/cleat-dev/cleat/server/internal/spec/podspec"
)

// Jobs runs maintenance in Jobs of the cluster. Their pods are made from the pod of the server. With a nil pod it only
// finds the Jobs of others.
type Jobs struct {
	*run.Cluster
	Pod     *corev1.Pod   // of the server
	Timeout time.Duration // after which a Job is ended
}

// Flag is the flag of the server that has it maintain the BackupRepository with a name, and end.
const Flag = "maintain-repository"

// ErrorPrefix stands before the error in what a pod says at its end, as in Velero.
const ErrorPrefix = "Repo maintenance error: "

// containerName is the name of the container of a Job's pod.
const containerName = "repository-maintenance"

// jobName returns the name of a new job of a repository, as Velero makes it.
func jobName(of *velerov1.BackupRepository, now time.Time) string {
	suffix := fmt.Sprintf("-maintain-job-%d", now.UnixMilli())
	if name := of.Name + suffix; len(name) <= velerov1.MaxLabelValueLength {
		return name
	}
	sum := sha3.Sum224([]byte(of.Name))
	return "repo-" + hex.EncodeToString(sum[:4]) + suffix
}

// labelOf returns the value of velero.io/repo-name for a repository, as Velero makes it.
func labelOf(of *velerov1.BackupRepository) string {
	if len(of.Name) <= velerov1.MaxLabelValueLength {
		return of.Name
	}
	sum := sha3.Sum224([]byte(of.Name))
	return hex.EncodeToString(sum[:])
}

// Start implements Runner.
func (j *Jobs) Start(ctx context.Context, of *velerov1.BackupRepository, name string, how maintenance.Job) error {
	job := j.job(of, name, how)
	err := j.Create(ctx, job)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	var known batchv1.Job
	if err := j.Live.Get(ctx, client.ObjectKeyFromObject(job), &known); err != nil {
		return err
	}
	if known.Labels[velerov1.RepositoryNameLabel] != labelOf(of) {
		return apierrors.NewBadRequest(fmt.Sprintf("there is a Job %s of something else", name))
	}
	return nil
}

// job returns the Job that maintains a repository.
func (j *Jobs) job(of *velerov1.BackupRepository, name string, how maintenance.Job) *batchv1.Job {
	labels := map[string]string{velerov1.RepositoryNameLabel: labelOf(of)}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "BackupRepository", Name: of.Name, UID: of.UID,
			}},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32), ActiveDeadlineSeconds: new(int64(j.Timeout / time.Second)),
			Template: j.template(of, how),
		},
	}
}

// inherited are labels and annotations of the server's pod that clouds need for the credentials of pods.
var inherited = struct{ labels, annotations []string }{
	labels: []string{"azure.workload.identity/use"}, annotations: []string{"iam.amazonaws.com/role"},
}

// template returns the pod of a Job: that of the server with other resources, which does one thing and ends.
func (j *Jobs) template(of *velerov1.BackupRepository, how maintenance.Job) corev1.PodTemplateSpec {
	from := j.Pod.DeepCopy()
	meta := metav1.ObjectMeta{Labels: how.Labels, Annotations: how.Annotations}
	if len(meta.Labels) == 0 {
		meta.Labels = some(from.Labels, inherited.labels)
	}
	if len(meta.Annotations) == 0 {
		meta.Annotations = some(from.Annotations, inherited.annotations)
	}
	meta.Labels = maps.Clone(meta.Labels)
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	meta.Labels[velerov1.RepositoryNameLabel] = labelOf(of)

	container := serverContainer(from)
	container.Name, container.Resources = containerName, how.Resources
	container.Args = append(container.Args, "--"+Flag+"="+of.Name)
	container.Ports, container.LivenessProbe, container.ReadinessProbe, container.StartupProbe = nil, nil, nil, nil
	container.Lifecycle = nil
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	spec := corev1.PodSpec{
		Containers: []corev1.Container{container}, InitContainers: from.Spec.InitContainers,
		Volumes: from.Spec.Volumes, ServiceAccountName: from.Spec.ServiceAccountName,
		AutomountServiceAccountToken: from.Spec.AutomountServiceAccountToken,
		SecurityContext:              from.Spec.SecurityContext, ImagePullSecrets: from.Spec.ImagePullSecrets,
		NodeSelector: from.Spec.NodeSelector, Affinity: from.Spec.Affinity, RuntimeClassName: from.Spec.RuntimeClassName,
		DNSPolicy: from.Spec.DNSPolicy, DNSConfig: from.Spec.DNSConfig, HostAliases: from.Spec.HostAliases,
		EnableServiceLinks: from.Spec.EnableServiceLinks, OS: from.Spec.OS,
		Tolerations: podspec.Tolerations(from), PriorityClassName: how.PriorityClassName,
		RestartPolicy: corev1.RestartPolicyNever,
	}
	if how.Nodes != nil {
		spec.Affinity = podspec.Affinity(how.Nodes)
	}
	withoutToken(&spec)
	return corev1.PodTemplateSpec{ObjectMeta: meta, Spec: spec}
}

// some returns the given ones of some labels.
func some(of map[string]string, names []string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if value, ok := of[name]; ok {
			found[name] = value
		}
	}
	return found
}

// serverContainer returns the container of the server: the one with Velero's name, or else the first.
func serverContainer(of *corev1.Pod) corev1.Container {
	i := slices.IndexFunc(of.Spec.Containers, func(c corev1.Container) bool { return c.Name == "velero" })
	return of.Spec.Containers[max(0, i)]
}

// tokenVolume is the prefix of the volume with the token of the service account, which each new pod gets by itself.
const tokenVolume = "kube-api-access-"

// withoutToken removes the volume with the token of another pod.
func withoutToken(spec *corev1.PodSpec) {
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return strings.HasPrefix(v.Name, tokenVolume)
	})
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool {
				return strings.HasPrefix(m.Name, tokenVolume)
			})
		}
	}
}

// Attempts implements Runner.
func (j *Jobs) Attempts(ctx context.Context, of *velerov1.BackupRepository) ([]Attempt, error) {
	var list batchv1.JobList
	if err := j.Live.List(ctx, &list, client.InNamespace(j.Namespace),
		client.MatchingLabels{velerov1.RepositoryNameLabel: labelOf(of)}); err != nil {
		return nil, fmt.Errorf("list the jobs that maintain repository %s: %w", of.Name, err)
	}
	var all []Attempt
	for i := range list.Items {
		all = append(all, attemptOf(&list.Items[i]))
	}
	slices.SortFunc(all, func(a, b Attempt) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// attemptOf returns the state of a Job.
func attemptOf(job *batchv1.Job) Attempt {
	a := Attempt{Name: job.Name, Began: job.CreationTimestamp.Time}
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			a.Ended = condition.LastTransitionTime.Time
		case batchv1.JobFailed:
			a.Ended, a.Failed = condition.LastTransitionTime.Time, true
			a.Why = strings.TrimSpace(condition.Reason + ": " + condition.Message)
		default:
		}
	}
	return a
}

// Result implements Runner. It returns what the container has said at its end, or else why the Job has failed.
func (j *Jobs) Result(ctx context.Context, ended Attempt) (string, error) {
	pod, err := j.podOf(ctx, ended)
	if err != nil {
		return "", err
	}
	said, why := "", ended.Why
	if pod != nil {
		for _, status := range pod.Status.ContainerStatuses {
			end := status.State.Terminated
			if end == nil {
				continue
			}
			said = end.Message
			if kubeapi.NeededMemory(end) {
				said = ErrorPrefix + "the pod was killed for its memory; raise memoryLimit of podResources in the ConfigMap of " +
					"--repo-maintenance-job-configmap"
			}
			if end.ExitCode != 0 {
				why = fmt.Sprintf("the pod has ended with exit status %d (%s)", end.ExitCode, end.Reason)
			}
			if kubeapi.NotStarted(end) {
				why = "the pod could not be started: " + end.Message
			}
		}
		if pod.Status.Reason != "" {
			why = strings.TrimSpace(pod.Status.Reason + ": " + pod.Status.Message)
		}
	}
	if i := strings.LastIndex(said, ErrorPrefix); i >= 0 {
		return strings.TrimSpace(said[i+len(ErrorPrefix):]), nil
	}
	if ended.Failed {
		return strings.TrimSpace(why), nil
	}
	return strings.TrimSpace(said), nil
}

// podOf returns the pod of a Job, nil if there is none.
func (j *Jobs) podOf(ctx context.Context, a Attempt) (*corev1.Pod, error) {
	var list corev1.PodList
	if err := j.Live.List(ctx, &list, client.InNamespace(j.Namespace),
		client.MatchingLabels{batchv1.JobNameLabel: a.Name}); err != nil {
		return nil, fmt.Errorf("list the pod of job %s: %w", a.Name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil //nolint:nilnil // it may not exist
	}
	return &list.Items[0], nil
}

// Waits implements Runner.
func (j *Jobs) Waits(ctx context.Context, running Attempt) (string, error) {
	pod, err := j.podOf(ctx, running)
	switch {
	case err != nil:
		return "", err
	case pod == nil:
		return "it has no pod", nil
	case pod.Status.Phase != corev1.PodPending:
		return "", nil
	}
	why := "pod " + pod.Name + " is pending"
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			why += ", it is not scheduled: " + condition.Message
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := status.State.Waiting; waiting != nil {
			why += fmt.Sprintf(", container %s waits: %s", status.Name, strings.TrimSpace(waiting.Reason+" "+waiting.Message))
		}
	}
	return why, nil
}

// Remove implements Runner.
func (j *Jobs) Remove(ctx context.Context, _ *velerov1.BackupRepository, a Attempt) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: a.Name}}
	err := j.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}
