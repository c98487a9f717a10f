package rehearsals

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// state is what a rehearsal has found out so far. It is in an annotation of the Restore.
type state struct {
	// Namespaces are those of the rehearsal, by the names in the backup.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	// Server is set if the backup has the namespace of the server, which is not rehearsed.
	Server bool `json:"server,omitempty"`
	// Names counts how often names were chosen.
	Names int `json:"names,omitempty"`

	Admitted time.Time `json:"admitted,omitzero"` // it had its turn
	Prepared time.Time `json:"prepared,omitzero"`
	Restored time.Time `json:"restored,omitzero"`
	Settled  time.Time `json:"settled,omitzero"` // the workloads were ready, or the time was over
	Cleaning time.Time `json:"cleaning,omitzero"`

	// Report is the digest of the report that was last about to be stored.
	Report string `json:"report,omitempty"`
	// Problems are why nothing was tried, or not all.
	Problems []string `json:"problems,omitempty"`
	// Cancelled is set for a rehearsal that a user has ended.
	Cancelled bool `json:"cancelled,omitempty"`
	// Overdue is set for a rehearsal whose restore was ended at its deadline.
	Overdue bool `json:"overdue,omitempty"`
	// Left is what could not be deleted, for people.
	Left []string `json:"left,omitempty"`
}

func phaseOf(restore *velerov1.Restore) string {
	return restore.Annotations[velerov1.RehearsalAnnotation]
}

// stateOf returns the state of a rehearsal.
func stateOf(restore *velerov1.Restore) (s state, err error) {
	text := restore.Annotations[velerov1.RehearsalStateAnnotation]
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("annotation %s is not the state of a rehearsal: %w", velerov1.RehearsalStateAnnotation, err)
	}
	return s, nil
}

// advance writes the next phase of a rehearsal by one conditional write. A rehearsal that another client has changed is
// reconciled again.
func (r *Controller) advance(
	ctx context.Context, restore *velerov1.Restore, phase string, s state, change func(*velerov1.Restore),
) error {
	before := restore.DeepCopy()
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the state of the rehearsal: %w", err)
	}
	annotations := maps.Clone(restore.Annotations)
	annotations[velerov1.RehearsalAnnotation], annotations[velerov1.RehearsalStateAnnotation] = phase, string(text)
	delete(annotations, velerov1.WaitsAnnotation)
	restore.Annotations = annotations
	if change != nil {
		change(restore)
	}
	err = r.Patch(ctx, restore, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("write phase %s of the rehearsal: %w", phase, err)
	}
	r.Log.Info("rehearsal", "restore", restore.Name, "backup", restore.Spec.BackupName, "phase", phase)
	return nil
}

// note writes what a rehearsal waits for, if that has changed.
func (r *Controller) note(ctx context.Context, restore *velerov1.Restore, what, because string, since time.Time) error {
	text, err := json.Marshal(velerov1.Waits{Oldest: []velerov1.Wait{{For: what, Because: because,
		Since: *run.Timestamp(since)}}})
	if err != nil {
		return err
	}
	if restore.Annotations[velerov1.WaitsAnnotation] == string(text) {
		return nil
	}
	before := restore.DeepCopy()
	run.SetWaits(restore, string(text))
	err = r.Patch(ctx, restore, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// done ends a rehearsal.
func (r *Controller) done(ctx context.Context, restore *velerov1.Restore, s state) error {
	classes, err := classesOf(ctx, r.Live, r.Namespace)
	if err == nil {
		err = dropClasses(ctx, r.Client, classes, func(uid string) bool { return uid == string(restore.UID) })
	}
	if err != nil {
		return err
	}
	if restore.DeletionTimestamp != nil {
		before := restore.DeepCopy()
		controllerutil.RemoveFinalizer(restore, velerov1.RehearsalFinalizer)
		return client.IgnoreNotFound(r.Patch(ctx, restore,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	}
	return r.advance(ctx, restore, velerov1.RehearsalDone, s, func(restore *velerov1.Restore) {
		controllerutil.RemoveFinalizer(restore, velerov1.RehearsalFinalizer)
		if run.RestorePhase(restore) == velerov1.RestorePhaseFailedValidation {
			restore.Status.ValidationErrors = []string{"rehearsal: " + resultOf(restore).Text}
		}
	})
}

// resultOf returns the result of a rehearsal that has one.
func resultOf(restore *velerov1.Restore) rehearsal.Summary {
	if list := rehearsal.ParseList(restore.Annotations[velerov1.RehearsalsAnnotation]); len(list) > 0 {
		return list[0]
	}
	return rehearsal.Summary{Text: "it has no result"}
}
