package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

const (
	// volumesPause is the pause between two checks of the volumes of pods whose post hooks wait.
	volumesPause = time.Second
	// defaultOperationTimeout is the timeout of a backup without itemOperationTimeout.
	defaultOperationTimeout = 4 * time.Hour
)

// podVolume is a volume of a pod that is backed up from the file system.
type podVolume struct {
	name  string
	claim *corev1.PersistentVolumeClaim // nil if the volume has none
	pv    *corev1.PersistentVolume      // nil if the volume has none
}

// podVolumes returns the volumes of a pod that an action is to back up from the file system, and the pod for that
// action: with these volumes in the annotation by which users choose them. For volumes that cannot be backed up it
// records warnings, as Velero does.
func (e *engine) podVolumes(ctx context.Context, raw []byte) (chosen []podVolume, sent []byte, err error) {
	pod := new(corev1.Pod)
	if err := json.Unmarshal(raw, pod); err != nil {
		return nil, nil, fmt.Errorf("decode the pod: %w", err)
	}
	if chosen, err = e.chooseVolumes(ctx, pod); err != nil || len(chosen) == 0 {
		return nil, nil, err
	}
	if pod.Status.Phase != corev1.PodRunning {
		e.warnOfVolumes(pod, "%s not backed up from the file system: the pod is not running, it is %s", names(chosen),
			pod.Status.Phase)
		return nil, nil, nil
	}
	chosen = slices.DeleteFunc(chosen, func(v podVolume) bool {
		why := unreachable(pod, v)
		if why != "" {
			e.warnOfVolumes(pod, "volume %s is not backed up from the file system: %s", v.name, why)
			return true
		}
		if other := e.volumes.take(v.claim, pod.Name); other != pod.Name {
			e.log.Info("a volume is backed up from another pod, which uses it too", "namespace", pod.Namespace, "name", pod.Name,
				"volume", v.name, "pod", other)
			return true
		}
		return false
	})
	if len(chosen) == 0 {
		return nil, nil, nil
	}
	if velerov1.MoverOf(velerov1.RepositoryType(e.deps.Uploader)) == "" {
		return nil, nil, fmt.Errorf("%s cannot be backed up from the file system with uploader %q: there are data movers "+
			"for kopia and restic; start the server with --uploader-type=kopia", names(chosen), e.deps.Uploader)
	}
	var all []string
	for _, v := range chosen {
		all = append(all, v.name)
	}
	sent, err = item.WithAnnotation(raw, velerov1.VolumesToBackupAnnotation, strings.Join(all, ","))
	return chosen, sent, err
}

func names(all []podVolume) string {
	text := "volumes"
	if len(all) == 1 {
		text = "volume"
	}
	for i, v := range all {
		if i > 0 {
			text += ","
		}
		text += " " + v.name
	}
	return text
}

// warnOfVolumes records a warning about volumes of a pod.
func (e *engine) warnOfVolumes(pod *corev1.Pod, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.record.warned(podsResource, pod.Namespace, pod.Name, text, nil)
	e.log.Warn(text, "namespace", pod.Namespace, "name", pod.Name)
}

// chooseVolumes returns the volumes of a pod whose data is to be backed up from the file system. The first rule of the
// resource policy that applies decides, and without one, the pod and the spec.
func (e *engine) chooseVolumes(ctx context.Context, pod *corev1.Pod) (chosen []podVolume, err error) {
	rules, byDefault := e.policies(), e.filesByDefault()
	for _, name := range listed(pod, velerov1.VolumesToBackupAnnotation) {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
			e.warnOfVolumes(pod, "annotation %s names volume %q, which the pod does not have",
				velerov1.VolumesToBackupAnnotation, name)
		}
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if why := neverByFiles(v); why != "" {
			if slices.Contains(listed(pod, velerov1.VolumesToBackupAnnotation), v.Name) {
				e.warnOfVolumes(pod, "volume %s is not backed up from the file system, although annotation %s names it: %s", v.Name,
					velerov1.VolumesToBackupAnnotation, why)
			}
			continue
		}
		asked := asksForFiles(pod, v.Name, byDefault)
		if !asked && len(rules) == 0 {
			continue
		}
		found := podVolume{name: v.Name}
		about := resourcepolicy.Volume{OfPod: v}
		if name := podclaims.Name(pod.Name, v); name != "" {
			if found.claim, found.pv, err = e.claimOfPod(ctx, pod.Namespace, name); err != nil {
				return nil, err
			}
			if found.claim == nil {
				return nil, fmt.Errorf("the claim %s of volume %s does not exist", name, v.Name)
			}
			if found.isExcluded() {
				e.leaveOutExcluded(pod, found)
				continue
			}
			about = resourcepolicy.Volume{PV: found.pv, Claim: found.claim}
		}
		action := rules.Action(about)
		if action == resourcepolicy.FileBackup || action == "" && asked {
			chosen = append(chosen, found)
		}
	}
	return chosen, nil
}

// isExcluded reports whether a label excludes the claim or the persistent volume from backups, and with it the data.
func (v podVolume) isExcluded() bool {
	return v.claim.Labels[velerov1.ExcludeFromBackupLabel] == "true" ||
		v.pv != nil && v.pv.Labels[velerov1.ExcludeFromBackupLabel] == "true"
}

// leaveOutExcluded logs that a volume is not backed up, and warns if the pod requests it by name.
func (e *engine) leaveOutExcluded(pod *corev1.Pod, v podVolume) {
	if slices.Contains(listed(pod, velerov1.VolumesToBackupAnnotation), v.name) {
		e.warnOfVolumes(pod, "volume %s is not backed up from the file system, although annotation %s names it: its claim "+
			"%s or persistent volume has the label %s=true",
			v.name, velerov1.VolumesToBackupAnnotation, v.claim.Name, velerov1.ExcludeFromBackupLabel)
		return
	}
	e.log.Info("a volume is not backed up, because its claim or persistent volume has the label "+
		velerov1.ExcludeFromBackupLabel,
		"namespace", pod.Namespace, "name", pod.Name, "volume", v.name, "claim", v.claim.Name)
}

// claimOfPod reads a claim and its volume. They are nil if they do not exist.
func (e *engine) claimOfPod(
	ctx context.Context, namespace, name string,
) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claims, known := e.sel.snapshot.ByGroupResource(claimsResource)
	resource, also := e.sel.snapshot.ByGroupResource(volumesResource)
	if !known || !also {
		return nil, nil, errors.New("the API server does not serve persistent volumes and their claims")
	}
	claim, err := readAs[corev1.PersistentVolumeClaim](ctx, e, claims, namespace, name)
	if err != nil || claim == nil || claim.Spec.VolumeName == "" {
		return claim, nil, err
	}
	pv, err := readAs[corev1.PersistentVolume](ctx, e, resource, "", claim.Spec.VolumeName)
	return claim, pv, err
}

// filesByDefault reports whether volumes are backed up from the file system unless the annotations of a pod exclude
// them.
func (e *engine) filesByDefault() bool {
	byDefault := e.req.Backup.Spec.DefaultVolumesToFsBackup
	return byDefault != nil && *byDefault
}

// asksForFiles reports whether a pod requests a file system backup of a volume: by an annotation or, if that is the
// default, by not excluding the volume.
func asksForFiles(pod *corev1.Pod, volume string, byDefault bool) bool {
	if byDefault {
		return !slices.Contains(listed(pod, velerov1.VolumesToExcludeAnnotation), volume)
	}
	return slices.Contains(listed(pod, velerov1.VolumesToBackupAnnotation), volume)
}

// listed returns the volumes in an annotation of a pod.
func listed(pod *corev1.Pod, annotation string) []string {
	if pod.Annotations[annotation] == "" {
		return nil
	}
	return strings.Split(pod.Annotations[annotation], ",")
}

// neverByFiles returns the reason why a volume of a pod is never backed up from the file system, or "" if it can be.
func neverByFiles(v *corev1.Volume) string {
	if strings.HasPrefix(v.Name, "default-token") {
		return "what is in it comes from objects of the cluster"
	}
	return podclaims.NeverMoved(v)
}

// unreachable returns the reason why the node agent cannot read a volume of a running pod, or "" if it can.
func unreachable(pod *corev1.Pod, v podVolume) string {
	mounted := false
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == v.name }) {
			return "it is a block device"
		}
		mounted = mounted || slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.name })
	}
	switch {
	case !mounted:
		return "no container mounts it"
	case v.pv != nil && v.pv.Spec.HostPath != nil:
		return "its persistent volume is a hostPath, which belongs to the node"
	}
	return ""
}

// take assigns the data of a claim to the first pod that requests it, and returns that pod. A volume without a claim
// belongs to its pod.
func (v *volumeState) take(claim *corev1.PersistentVolumeClaim, pod string) string {
	if claim == nil {
		return pod
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	key := claim.Namespace + "/" + claim.Name
	if v.takenBy[key] == "" {
		v.takenBy[key] = pod
	}
	return v.takenBy[key]
}

// backsUp records the volumes of a pod that an action backs up.
func (e *engine) backsUp(pod framework.ResourceIdentifier, chosen []podVolume) {
	for _, v := range chosen {
		e.volumes.infos.AddPodVolume(v.pv, &volumes.PodInfo{
			UploaderType: e.deps.Uploader, VolumeName: v.name, PodName: pod.Name, PodNamespace: pod.Namespace,
		})
	}
}

// started records the operation on the volumes of a pod.
func (v *volumeState) started(pod framework.ResourceIdentifier, operation string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if operation != "" {
		v.running[pod] = operation
	}
}

// runningIn returns the operations on the volumes of pods.
func (v *volumeState) runningIn(pods []*corev1.Pod) (ids []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, pod := range pods {
		if id := v.running[framework.ResourceIdentifier{Resource: "pods", Namespace: pod.Namespace,
			Name: pod.Name}]; id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// awaitVolumes waits for the ends of operations on volumes of pods, up to the timeout of operations. The monitor of
// all operations handles their results.
func (e *engine) awaitVolumes(ctx context.Context, ids []string) {
	at := slices.IndexFunc(e.req.Actions,
		func(a backupitemaction.Action) bool { return e.deps.Roles.Has(a.Name(), framework.RolePodVolumes) })
	limit := cmp.Or(e.req.Backup.Spec.ItemOperationTimeout.Duration, defaultOperationTimeout)
	for _, id := range ids {
		waiting := waits.Begin(ctx, "operation %s to end before the post hooks of its pod", id)
		err := wait.PollUntilContextTimeout(ctx, volumesPause, limit, true, func(ctx context.Context) (bool, error) {
			progress, err := e.req.Actions[at].Progress(ctx, id, e.backupJSON)
			return err == nil && progress.Completed || errors.Is(err, framework.ErrNotFound), nil
		})
		waiting.End()
		if err != nil && ctx.Err() == nil {
			e.log.Warn("the post hooks of a pod run before its volumes are backed up", "operation", id, "waited", limit)
		}
	}
}
