package status

import (
	"cmp"
	"fmt"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/status/layout"
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
}

// BackupRun returns the state of a backup.
func BackupRun(b *velerov1.Backup) Run {
	s := &b.Status
	r := Run{
		Kind: "backup", Name: b.Name, Phase: PhaseOrNew(string(s.Phase)), Errors: s.Errors, Warnings: s.Warnings,
		FailureReason: s.FailureReason, ValidationErrors: s.ValidationErrors,
	}
	if s.Progress != nil {
		r.Done, r.Total = s.Progress.ItemsBackedUp, s.Progress.TotalItems
	}
	return r
}

// RestoreRun returns the state of a restore.
func RestoreRun(restore *velerov1.Restore) Run {
	s := &restore.Status
	r := Run{
		Kind: "restore", Name: restore.Name, Phase: PhaseOrNew(string(s.Phase)), Errors: s.Errors, Warnings: s.Warnings,
		FailureReason: s.FailureReason, ValidationErrors: s.ValidationErrors,
	}
	if s.Progress != nil {
		r.Done, r.Total = s.Progress.ItemsRestored, s.Progress.TotalItems
	}
	return r
}

// PhaseOrNew returns a phase, and New for the empty one.
func PhaseOrNew(phase string) string {
	return cmp.Or(phase, string(velerov1.BackupPhaseNew))
}

// Title returns the kind with a capital letter.
func (r Run) Title() string { return strings.ToUpper(r.Kind[:1]) + r.Kind[1:] }

// Ended reports whether the run has reached its final phase.
func (r Run) Ended() bool {
	if r.Kind == "restore" {
		return velerov1.RestorePhase(r.Phase).Terminal()
	}
	return velerov1.BackupPhase(r.Phase).Terminal()
}

// HasLog reports whether a run in this phase has stored its log and its other files, unless it failed early.
func (r Run) HasLog() bool {
	switch velerov1.BackupPhase(r.Phase) {
	case velerov1.BackupPhaseNew, velerov1.BackupPhaseQueued, velerov1.BackupPhaseReadyToStart,
		velerov1.BackupPhaseInProgress, velerov1.BackupPhaseFailedValidation:
		return false
	default:
		return true
	}
}

// Conclusion returns a sentence about a run that has ended as Completed, and an error about any other.
func (r Run) Conclusion() (string, error) {
	more := fmt.Sprintf("run \"cleat %s describe %s --details\" or \"cleat %s logs %s\" for more", r.Kind, r.Name, r.Kind, r.Name)
	switch velerov1.BackupPhase(r.Phase) {
	case velerov1.BackupPhaseCompleted:
		return fmt.Sprintf("%s completed with status: Completed, %s; %s.", r.Title(), layout.Count(r.Done, "item"), layout.Count(r.Warnings, "warning")), nil
	case velerov1.BackupPhaseFailedValidation:
		return "", fmt.Errorf("%s %s failed validation: %s", r.Kind, r.Name, strings.Join(r.ValidationErrors, "; "))
	case velerov1.BackupPhasePartiallyFailed:
		return "", fmt.Errorf("%s %s completed with status: PartiallyFailed, %s; %s", r.Kind, r.Name, layout.Count(r.Errors, "error"), more)
	default:
		return "", fmt.Errorf("%s %s completed with status: %s: %s; %s", r.Kind, r.Name, r.Phase, layout.OrNone(r.FailureReason), more)
	}
}
