package status

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// Movement is a DataUpload or DataDownload, as descriptions show it until it has moved its data.
type Movement struct {
	Namespace string                `json:"namespace"`
	Claim     string                `json:"claim"`
	DataMover string                `json:"dataMover,omitempty"`
	Phase     velerov1.LoadPhase    `json:"phase,omitempty"`
	Progress  velerov1.LoadProgress `json:"progress"`
	// Message is the reason why the load waits, or why it has failed.
	Message string       `json:"message,omitempty"`
	UID     types.UID    `json:"uid,omitempty"` // of the load
	Started *metav1.Time `json:"started,omitempty"`
	Pace    *Pace        `json:"pace,omitempty"` // while its data is moved; nil if it is not known
}

// MovementsOfBackup returns the DataUploads that have not moved their data. The others are among the CSI snapshots of
// their backup.
func MovementsOfBackup(loads []velerov2alpha1.DataUpload) (all []Movement) {
	for i := range loads {
		l := &loads[i]
		all = append(all, Movement{l.Spec.SourceNamespace, l.Spec.SourcePVC, l.Spec.DataMover, l.Status.Phase,
			l.Status.Progress, l.Status.Message, l.UID, l.Status.StartTimestamp, nil})
	}
	return slices.DeleteFunc(all, Movement.completed)
}

// MovementsOfRestore returns the DataDownloads that have not moved their data.
func MovementsOfRestore(loads []velerov2alpha1.DataDownload) (all []Movement) {
	for i := range loads {
		l := &loads[i]
		all = append(all, Movement{l.Spec.TargetVolume.Namespace, l.Spec.TargetVolume.PVC, l.Spec.DataMover, l.Status.Phase,
			l.Status.Progress, l.Status.Message, l.UID, l.Status.StartTimestamp, nil})
	}
	return slices.DeleteFunc(all, Movement.completed)
}

func (m Movement) completed() bool { return m.Phase == velerov1.LoadPhaseCompleted }

// asPodVolumes returns movements in the form of volumes of pods, with the namespace in the place of the pod.
func asPodVolumes(movements []Movement) (all []PodVolume) {
	for _, m := range movements {
		all = append(all, PodVolume{Pod: m.Namespace, Volume: m.Claim, Uploader: m.DataMover, Phase: m.Phase,
			Progress: m.Progress, Message: m.Message, UID: m.UID, Started: m.Started, Pace: m.Pace})
	}
	return all
}

// printMovements writes the movements by phase, if there are any: how many, or with details each.
func printMovements(d *layout.Description, head string, movements []Movement, details bool) {
	if len(movements) > 0 {
		d.Gap()
		printPodVolumes(d, head, asPodVolumes(movements), details)
	}
}
