package volumes

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// mostLosses is how many bytes of warnings of one volume are taken over; node agents write fewer.
const mostLosses = 5000

// losses collects what data movers could not keep of volumes, as warnings of a run. Node agents write it to the
// status.message of a load that is Completed, one line each.
type losses struct {
	found results.Result
	log   hclog.Logger
}

// ofPod adds those of a volume of a pod.
func (l *losses) ofPod(pod *velerov1.ObjectReference, volume string, status *velerov1.LoadStatus) {
	l.add(pod.Namespace, "pods", pod.Name, "volume "+volume, status)
}

// ofClaim adds those of the volume of a claim.
func (l *losses) ofClaim(namespace, claim string, status *velerov1.LoadStatus) {
	l.add(namespace, "persistentvolumeclaims", claim, "its volume", status)
}

func (l *losses) add(namespace, resource, name, volume string, status *velerov1.LoadStatus) {
	if status.Phase != velerov1.LoadPhaseCompleted || status.Message == "" {
		return
	}
	for line := range strings.SplitSeq(shorten.Text(status.Message, mostLosses), "\n") {
		message := results.Message{Resource: resource, Name: name, Text: volume + ": " + line}
		l.found.Add(namespace, message.String())
		l.log.Warn("a volume was not moved as it was", "resource", resource, "namespace", namespace, "name", name, "volume",
			volume, "warning", line)
	}
}

// lostRestored returns what could not be kept of the volumes of a restore whose loads have ended.
func (h *Hub) lostRestored(
	ctx context.Context, restore *velerov1.Restore, log hclog.Logger,
) (lost results.Result, err error) {
	of := losses{log: log}
	list := func(loads client.ObjectList) error {
		err := h.Live.List(ctx, loads, client.InNamespace(restore.Namespace),
			client.MatchingLabels{velerov1.RestoreUIDLabel: string(restore.UID)})
		if err != nil {
			return fmt.Errorf("list the loads of the restore: %w", err)
		}
		return nil
	}
	written := func(load client.Object) bool {
		ok, failed := h.Keys.Written(ctx, operation.OfRestore, restore.UID, load)
		if err == nil {
			err = failed
		}
		return ok
	}
	var ofPods velerov1.PodVolumeRestoreList
	if err := list(&ofPods); err != nil {
		return lost, err
	}
	for i := range ofPods.Items {
		if r := &ofPods.Items[i]; written(r) {
			of.ofPod(&r.Spec.Pod, r.Spec.Volume, &r.Status.LoadStatus)
		}
	}
	var downloads velerov2alpha1.DataDownloadList
	if err := list(&downloads); err != nil {
		return lost, err
	}
	for i := range downloads.Items {
		if d := &downloads.Items[i]; h.HasMover != nil && h.HasMover(d.Spec.DataMover) && written(d) {
			of.ofClaim(d.Spec.TargetVolume.Namespace, d.Spec.TargetVolume.PVC, &d.Status.LoadStatus)
		}
	}
	return of.found, err
}
