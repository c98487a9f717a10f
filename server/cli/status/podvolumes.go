package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// PodVolume is the load of a volume of a pod, as descriptions show it.
type PodVolume struct {
	Pod      string                `json:"pod"` // with its namespace
	Volume   string                `json:"volume"`
	Uploader string                `json:"uploaderType"`
	Phase    velerov1.LoadPhase    `json:"phase,omitempty"`
	Progress velerov1.LoadProgress `json:"progress"`
	// Incremental is how many bytes of a backup are new.
	Incremental int64 `json:"incrementalBytes,omitempty"`
	// Message is the reason why the load waits, or why it has failed, or what it could not keep of the volume.
	Message string       `json:"message,omitempty"`
	UID     types.UID    `json:"uid,omitempty"` // of the load
	Started *metav1.Time `json:"started,omitempty"`
	Pace    *Pace        `json:"pace,omitempty"` // while its data is moved; nil if it is not known
}

// PodVolumesOfBackup returns the loads of a backup.
func PodVolumesOfBackup(loads []velerov1.PodVolumeBackup) (all []PodVolume) {
	for i := range loads {
		l := &loads[i]
		all = append(all, PodVolume{
			l.Spec.Pod.Namespace + "/" + l.Spec.Pod.Name, l.Spec.Volume, string(l.Spec.UploaderType), l.Status.Phase,
			l.Status.Progress, l.Status.IncrementalBytes, l.Status.Message, l.UID, l.Status.StartTimestamp, nil,
		})
	}
	return all
}

// PodVolumesOfRestore returns the loads of a restore.
func PodVolumesOfRestore(loads []velerov1.PodVolumeRestore) (all []PodVolume) {
	for i := range loads {
		l := &loads[i]
		all = append(all, PodVolume{
			l.Spec.Pod.Namespace + "/" + l.Spec.Pod.Name, l.Spec.Volume, string(l.Spec.UploaderType), l.Status.Phase,
			l.Status.Progress, 0, l.Status.Message, l.UID, l.Status.StartTimestamp, nil,
		})
	}
	return all
}

// text returns the name of the volume with its size, its progress, or its message.
func (v *PodVolume) text() string {
	p, pace := v.Progress, v.Pace.text()
	if pace != "" {
		pace = "; " + pace
	}
	switch {
	case v.Message != "" && v.waits():
		return fmt.Sprintf("%s (waits: %s)", v.Volume, v.Message)
	case v.Phase == velerov1.LoadPhasePrepared:
		return v.Volume + " (waits: " + movesAtOnce + ")"
	case v.Message != "" && v.Phase == velerov1.LoadPhaseFailed:
		return fmt.Sprintf("%s (%s)", v.Volume, v.Message)
	case v.Message != "" && v.Phase == velerov1.LoadPhaseInProgress:
		return fmt.Sprintf("%s (%.2f%%%s; %s)", v.Volume, float64(p.BytesDone)/float64(max(1, p.TotalBytes))*100, pace,
			v.Message)
	case v.Phase == velerov1.LoadPhaseInProgress && p.TotalBytes > 0:
		return fmt.Sprintf("%s (%.2f%%%s)", v.Volume, float64(p.BytesDone)/float64(p.TotalBytes)*100, pace)
	case v.Phase == velerov1.LoadPhaseCompleted && v.Incremental > 0:
		return fmt.Sprintf("%s (size: %d, incremental size: %d%s)", v.Volume, p.TotalBytes, v.Incremental, v.lost())
	case v.Phase == velerov1.LoadPhaseCompleted && p.TotalBytes > 0:
		return fmt.Sprintf("%s (size: %d%s)", v.Volume, p.TotalBytes, v.lost())
	default:
		return v.Volume
	}
}

// lost returns what could not be kept of a volume that was moved, after a semicolon; "" if everything was.
func (v *PodVolume) lost() string {
	if v.Message == "" {
		return ""
	}
	return "; " + strings.ReplaceAll(v.Message, "\n", "; ")
}

// waits reports whether the load has not started.
func (v *PodVolume) waits() bool {
	return v.Phase.IsNew() || v.Phase == velerov1.LoadPhaseAccepted || v.Phase == velerov1.LoadPhasePrepared
}

// podVolumePhases are the headings of descriptions, in their order.
func podVolumePhases() []string {
	return []string{"Completed", "Failed", "Canceled", "In Progress", "Canceling", "Prepared", "Accepted", "New"}
}

// podVolumesByPhase returns the loads by the headings of their phases.
func podVolumesByPhase(loads []PodVolume) map[string][]PodVolume {
	by := map[string][]PodVolume{}
	for _, load := range loads {
		phase := PhaseOrNew(string(load.Phase))
		if load.Phase == velerov1.LoadPhaseInProgress {
			phase = "In Progress"
		}
		by[phase] = append(by[phase], load)
	}
	return by
}

// volumesByPod returns the texts of loads by their pods, sorted.
func volumesByPod(loads []PodVolume) map[string]string {
	texts := map[string][]string{}
	for i := range loads {
		texts[loads[i].Pod] = append(texts[loads[i].Pod], loads[i].text())
	}
	by := map[string]string{}
	for pod, volumes := range texts {
		slices.Sort(volumes)
		by[pod] = strings.Join(volumes, ", ")
	}
	return by
}

// printPodVolumes writes the loads by phase: how many, or with details each.
func printPodVolumes(d *layout.Description, head string, loads []PodVolume, details bool) {
	if !details {
		head += " (" + seeDetails + ")"
	}
	by := podVolumesByPhase(loads)
	d.Section(head, func() {
		for _, phase := range podVolumePhases() {
			switch {
			case len(by[phase]) == 0:
			case details:
				d.Section(phase, func() {
					pods := volumesByPod(by[phase])
					for _, pod := range slices.Sorted(maps.Keys(pods)) {
						d.Line("%s: %s", pod, pods[pod])
					}
				})
			default:
				d.Pairs([2]string{phase, fmt.Sprint(len(by[phase]))})
			}
		}
	})
}

// podVolumesDocument is the part of the JSON about loads of volumes of pods. The keys are Velero's.
type podVolumesDocument struct {
	Uploader string `json:"uploderType"` // Velero's key
	// by phase: the number or, with details, the volumes of each pod
	Details map[string]any `json:"podVolumeBackupsDetails"`
}

func newPodVolumesDocument(loads []PodVolume, details bool) any {
	if len(loads) == 0 {
		return noneIncluded
	}
	return podVolumesDocument{Uploader: loads[0].Uploader, Details: loadsByPhase(loads, details)}
}

// loadsByPhase returns for each phase the number of loads or, with details, the volumes of each pod.
func loadsByPhase(loads []PodVolume, details bool) map[string]any {
	out := map[string]any{}
	for phase, some := range podVolumesByPhase(loads) {
		if !details {
			out[phase] = len(some)
			continue
		}
		pods, all := volumesByPod(some), []map[string]string{}
		for _, pod := range slices.Sorted(maps.Keys(pods)) {
			all = append(all, map[string]string{pod: pods[pod]})
		}
		out[phase] = all
	}
	return out
}

// LoadTable returns the table of the loads of a run.
func LoadTable(pods []PodVolume, movements []Movement) layout.Table {
	t := layout.Table{Head: []string{"NAME", "OF", "PHASE", "DONE", "RATE", "LEFT", "BY", "NOTE"}}
	for _, v := range slices.Concat(pods, asPodVolumes(movements)) {
		rate, left := none, none
		if v.Pace != nil {
			rate, left = pace{float64(v.Pace.BytesPerSecond), true}.text("bytes"), cmp.Or(v.Pace.Left, none)
		}
		why := v.Message
		if v.Phase == velerov1.LoadPhasePrepared && why == "" {
			why = movesAtOnce
		}
		t.Rows = append(t.Rows, []string{layout.OneLine(v.Volume), layout.OneLine(v.Pod), PhaseOrNew(string(v.Phase)),
			amount(v.Progress.BytesDone, v.Progress.TotalBytes, "bytes"), rate, left, layout.OneLine(moverOr(v.Uploader)),
			layout.OneLine(why)})
	}
	return t
}

// movesAtOnce is what a load waits for that is prepared.
const movesAtOnce = "its node moves as many volumes at once as it may"
