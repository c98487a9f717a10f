package status

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Run is the state of a backup or restore: the part of their statuses that both have. Their phases have the same names.
type Run struct {
	Kind             string // "backup" or "restore"
	Name             string
	Phase            string // New for an object that has none yet
	Done, Total      int    // items
	Errors, Warnings int
	FailureReason    string
	ValidationErrors []string
	Operations       serverreport.Summary // as counted in the status, without amounts
	Hooks            int                  // that run beside a restore
	Waiting          string               // the longest wait, and since when; "" if there is none
}

// BackupRun returns the state of a backup.
func BackupRun(b *velerov1.Backup) Run {
	s := &b.Status
	r := Run{
		Kind: "backup", Name: b.Name, Phase: phaseOf(b, string(s.Phase)), Errors: s.Errors, Warnings: s.Warnings,
		FailureReason: s.FailureReason, ValidationErrors: s.ValidationErrors,
	}
	r.Waiting = longestWait(b)
	if s.Progress != nil {
		r.Done, r.Total = s.Progress.ItemsBackedUp, s.Progress.TotalItems
	}
	r.Operations = operationsCount(s.BackupItemOperationsAttempted, s.BackupItemOperationsCompleted,
		s.BackupItemOperationsFailed)
	return r
}

// RestoreRun returns the state of a restore.
func RestoreRun(restore *velerov1.Restore) Run {
	s := &restore.Status
	r := Run{
		Kind: "restore", Name: restore.Name, Phase: phaseOf(restore, string(s.Phase)), Errors: s.Errors, Warnings: s.Warnings,
		FailureReason: s.FailureReason, ValidationErrors: s.ValidationErrors,
	}
	r.Waiting = longestWait(restore)
	if s.Progress != nil {
		r.Done, r.Total = s.Progress.ItemsRestored, s.Progress.TotalItems
	}
	r.Operations = operationsCount(s.RestoreItemOperationsAttempted, s.RestoreItemOperationsCompleted,
		s.RestoreItemOperationsFailed)
	if s.HookStatus != nil {
		r.Hooks = s.HookStatus.HooksAttempted
	}
	return r
}

// Phases of dry runs. Their phase is FailedValidation, so that a server without dry runs ignores them.
const (
	DryRun          = "DryRun" // that has not ended
	DryRunCompleted = "DryRunCompleted"
	DryRunFailed    = "DryRunFailed" // it was not carried out
)

// phaseOf returns the phase of a backup or restore for people, New for one that has none yet.
func phaseOf(object metav1.Object, phase string) string {
	switch object.GetAnnotations()[velerov1.DryRunAnnotation] {
	case velerov1.DryRunRequested:
		return DryRun
	case velerov1.DryRunDone:
		return DryRunCompleted
	case velerov1.DryRunFailed:
		return DryRunFailed
	}
	switch rehearsal := object.GetAnnotations()[velerov1.RehearsalAnnotation]; rehearsal {
	case "", velerov1.RehearsalRestoring, velerov1.RehearsalDone:
		return PhaseOrNew(phase)
	default:
		return rehearsing + strings.ToUpper(rehearsal[:1]) + rehearsal[1:]
	}
}

// rehearsing begins the phase of a rehearsal whose Restore has not begun, or has ended, such as RehearsalWaiting.
const rehearsing = "Rehearsal"

func operationsCount(attempted, completed, failed int) serverreport.Summary {
	return serverreport.Summary{Open: max(0, attempted-completed-failed), Completed: completed, Failed: failed}
}

// PhaseOrNew returns a phase, and New for the empty one.
func PhaseOrNew(phase string) string {
	return cmp.Or(phase, string(velerov1.BackupPhaseNew))
}

// Title returns the kind with a capital letter.
func (r Run) Title() string { return strings.ToUpper(r.Kind[:1]) + r.Kind[1:] }

// phaseText returns the phase of a backup or restore, and if it has failed where to read more.
func phaseText(kind string, object metav1.Object, phase string) string {
	switch p := velerov1.BackupPhase(phase); p {
	case velerov1.BackupPhaseFailed, velerov1.BackupPhasePartiallyFailed:
		return fmt.Sprintf("%s (run `cleat %s logs %s` for more information)", phase, kind, object.GetName())
	default:
		return phaseOf(object, phase)
	}
}

// Ended reports whether the run has reached its final phase.
func (r Run) Ended() bool {
	if r.Phase == DryRunCompleted || r.Phase == DryRunFailed {
		return true
	}
	if r.Kind == "restore" {
		return velerov1.RestorePhase(r.Phase).Terminal()
	}
	return velerov1.BackupPhase(r.Phase).Terminal()
}

// HasLog reports whether a run in this phase has stored its log and its other files, unless it failed early.
func (r Run) HasLog() bool {
	if r.Phase == rehearsing+"Requested" || r.Phase == rehearsing+"Preparing" {
		return false
	}
	switch velerov1.BackupPhase(r.Phase) {
	case velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart,
		velerov1.BackupPhaseInProgress, velerov1.BackupPhaseFailedValidation, DryRun, DryRunCompleted, DryRunFailed:
		return false
	default:
		return true
	}
}

// Waits reports whether the run waits for operations that its plugins have started.
func (r Run) Waits() bool {
	phase := velerov1.BackupPhase(r.Phase)
	return phase == velerov1.BackupPhaseWaitingForPluginOperations ||
		phase == velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed
}

// Starts reports whether the run is in progress and has started operations.
func (r Run) Starts() bool {
	return velerov1.BackupPhase(r.Phase) == velerov1.BackupPhaseInProgress && r.Operations.Attempted() > 0
}

// Failed reports whether the run has failed as a whole. Its open operations are then cancelled.
func (r Run) Failed() bool { return velerov1.BackupPhase(r.Phase) == velerov1.BackupPhaseFailed }

// Cancellation returns what happens when the run is cancelled, and an error if there is nothing to cancel any more.
func (r Run) Cancellation() (string, error) {
	phase := velerov1.BackupPhase(r.Phase)
	finalizing := phase == velerov1.BackupPhaseFinalizing || phase == velerov1.BackupPhaseFinalizingPartiallyFailed
	switch {
	case r.Phase == rehearsing+"Cleaning":
		return "", fmt.Errorf("rehearsal %s has ended, and what it has made is being deleted", r.Name)
	case strings.HasPrefix(r.Phase, rehearsing):
		return "it ends early, and what it has made is deleted", nil
	case r.Ended(), phase == velerov1.BackupPhaseDeleting:
		return "", fmt.Errorf("%s %s has ended (%s), so there is nothing to cancel", r.Kind, r.Name, r.Phase)
	case finalizing && r.Hooks > 0:
		return "its hooks that have not begun are not run, and if there are some it becomes PartiallyFailed", nil
	case finalizing:
		return "", fmt.Errorf("%s %s is %s: its work and its operations have ended, so there is nothing to cancel; wait "+
			"for its end", r.Kind, r.Name, r.Phase)
	case phase == velerov1.BackupPhaseInProgress:
		return "it stops and becomes Failed, and the operations that it has started are cancelled", nil
	case r.Waits():
		return fmt.Sprintf("its open operations (%d) are cancelled, and it becomes PartiallyFailed when they have ended",
			r.Operations.Open), nil
	default:
		return "it does not start, and becomes Failed", nil
	}
}

// Conclusion returns a sentence about a run that has ended as Completed, and an error about any other.
func (r Run) Conclusion() (string, error) {
	more := fmt.Sprintf("run \"cleat %s describe %s --details\" or \"cleat %s logs %s\" for more", r.Kind, r.Name, r.Kind,
		r.Name)
	switch velerov1.BackupPhase(r.Phase) {
	case velerov1.BackupPhaseCompleted:
		return fmt.Sprintf("%s completed with status: Completed, %s; %s.", r.Title(), layout.Count(r.Done, "item"),
			layout.Count(r.Warnings, "warning")), nil
	case velerov1.BackupPhaseFailedValidation:
		return "", fmt.Errorf("%s %s failed validation: %s", r.Kind, r.Name, strings.Join(r.ValidationErrors, "; "))
	case velerov1.BackupPhasePartiallyFailed:
		return "", fmt.Errorf("%s %s completed with status: PartiallyFailed, %s; %s", r.Kind, r.Name,
			layout.Count(r.Errors, "error"), more)
	default:
		return "", fmt.Errorf("%s %s completed with status: %s: %s; %s", r.Kind, r.Name, r.Phase,
			layout.OrNone(r.FailureReason), more)
	}
}
