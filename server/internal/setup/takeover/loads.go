package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
)

// cancelTimeout is how long cancelled loads may take to end.
const cancelTimeout = 2 * time.Minute

// load is a custom resource by which a node agent moves the data of a volume.
type load struct {
	client.Object
	kind  string
	phase velerov1.LoadPhase
	mover string // of a DataUpload or DataDownload
}

func (l *load) String() string { return l.kind + " " + l.GetName() }

// isVeleros reports whether a load is one that Velero has created for its own node agents.
func (l *load) isVeleros() bool {
	return l.GetAnnotations()[velerov1.LoadSignatureAnnotation] == "" && velerov1.IsVeleroDataMover(l.mover)
}

// loads returns the loads of the namespace.
func (t *Takeover) loads(ctx context.Context) ([]load, error) {
	var (
		backups   velerov1.PodVolumeBackupList
		restores  velerov1.PodVolumeRestoreList
		uploads   velerov2alpha1.DataUploadList
		downloads velerov2alpha1.DataDownloadList
	)
	for _, list := range []client.ObjectList{&backups, &restores, &uploads, &downloads} {
		if err := ignoreAbsent(t.list(ctx, list)); err != nil {
			return nil, err
		}
	}
	var all []load
	for i := range backups.Items {
		l := &backups.Items[i]
		all = append(all, load{l, "PodVolumeBackup", l.Status.Phase, ""})
	}
	for i := range restores.Items {
		l := &restores.Items[i]
		all = append(all, load{l, "PodVolumeRestore", l.Status.Phase, ""})
	}
	for i := range uploads.Items {
		l := &uploads.Items[i]
		all = append(all, load{l, "DataUpload", l.Status.Phase, l.Spec.DataMover})
	}
	for i := range downloads.Items {
		l := &downloads.Items[i]
		all = append(all, load{l, "DataDownload", l.Status.Phase, l.Spec.DataMover})
	}
	return all, nil
}

// open returns those of some loads that have not ended.
func open(loads []load) []load {
	return slices.DeleteFunc(slices.Clone(loads), func(l load) bool { return l.phase.Terminal() })
}

// OpenLoads returns the names of the loads of the namespace that have not ended.
func (t *Takeover) OpenLoads(ctx context.Context) (names []string, err error) {
	all, err := t.loads(ctx)
	for _, l := range open(all) {
		names = append(names, l.String())
	}
	return names, err
}

// velerosLoads returns the loads that Velero has created.
func (t *Takeover) velerosLoads(ctx context.Context) ([]load, error) {
	all, err := t.loads(ctx)
	return slices.DeleteFunc(all, func(l load) bool { return !l.isVeleros() }), err
}

// velerosOpenLoads returns the loads that Velero has created and that have not ended.
func (t *Takeover) velerosOpenLoads(ctx context.Context) ([]load, error) {
	all, err := t.velerosLoads(ctx)
	return open(all), err
}

// areMoved reports whether there are agents of Velero, which move loads. A pod that was deleted is replaced.
func (t *Takeover) areMoved(ctx context.Context) (bool, error) {
	var pods corev1.PodList
	err := t.Client.List(ctx, &pods, client.InNamespace(t.Namespace),
		client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role})
	if err != nil || nodeagents.FindVelero(pods.Items, "") != nil {
		return true, err
	}
	agents, err := t.veleroAgents(ctx)
	return slices.ContainsFunc(agents, func(d appsv1.DaemonSet) bool { return d.Status.DesiredNumberScheduled > 0 }), err
}

// letLoadsEnd waits until Velero's agents have ended the loads under way and, if Velero's server runs, Velero the runs that
// have loads: such a run may create more of them. It returns no error if the time of limited, which is derived from ctx, is
// over before.
func (t *Takeover) letLoadsEnd(ctx, limited context.Context, served bool) error {
	said := false
	moving := func(ctx context.Context) (bool, error) {
		loads, err := t.velerosLoads(ctx)
		if err != nil {
			return false, err
		}
		runs := map[string]bool{} // "backup NAME" or "restore NAME"
		for _, l := range loads {
			if owner := metav1.GetControllerOf(l); served && owner != nil {
				runs[strings.ToLower(owner.Kind)+" "+owner.Name] = true
			}
		}
		loads = open(loads)
		running, err := t.isOpen(ctx, runs)
		if err != nil || len(loads) == 0 && !running {
			return true, err
		}
		moved, err := t.areMoved(ctx)
		switch {
		case err != nil:
		case !moved:
			t.Report("node agents of Velero", fmt.Sprintf("are not there, and do not move the data of %d volumes", len(loads)))
		case !said:
			said = true
			t.Report("node agents of Velero", fmt.Sprintf("move the data of %d volumes; waiting up to %s for their end",
				len(loads), t.LoadTimeout))
		}
		return !moved, err
	}
	err := wait.PollUntilContextCancel(limited, poll, true, moving)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// isOpen reports whether one of some runs has not ended.
func (t *Takeover) isOpen(ctx context.Context, runs map[string]bool) (bool, error) {
	if len(runs) == 0 {
		return false, nil
	}
	var backups velerov1.BackupList
	var restores velerov1.RestoreList
	if err := errors.Join(t.list(ctx, &backups), t.list(ctx, &restores)); err != nil {
		return false, err
	}
	return slices.ContainsFunc(backups.Items, func(b velerov1.Backup) bool {
		return runs["backup "+b.Name] && !b.Status.Phase.Terminal()
	}) || slices.ContainsFunc(restores.Items, func(r velerov1.Restore) bool {
		return runs["restore "+r.Name] && !r.Status.Phase.Terminal()
	}), nil
}

// cancelLoads cancels the loads of Velero that have not ended, and waits until its agents have ended them. Nobody
// follows them any more: cleat repeats the runs to which they belong, or ends them with an error for each volume.
func (t *Takeover) cancelLoads(ctx context.Context) error {
	loads, err := t.velerosOpenLoads(ctx)
	if err != nil {
		return err
	}
	for _, l := range loads {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))
		if err := client.IgnoreNotFound(t.Client.Patch(ctx, l.Object, patch)); err != nil {
			return fmt.Errorf("cancel %s: %w", &l, err)
		}
		t.Report(strings.ToLower(l.kind)+"/"+l.GetName(), "cancelled: it did not end in time")
	}
	if len(loads) == 0 {
		return nil
	}
	ended := func(ctx context.Context) (bool, error) {
		if loads, err = t.velerosOpenLoads(ctx); err != nil || len(loads) == 0 {
			return true, err
		}
		moved, err := t.areMoved(ctx)
		return !moved, err
	}
	limited, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	if err := wait.PollUntilContextCancel(limited, poll, true, ended); err != nil && (limited.Err() == nil ||
		ctx.Err() != nil) {
		return err
	}
	for _, l := range loads {
		t.Report(strings.ToLower(l.kind)+"/"+l.GetName(), "has not ended; cleat's node agents mark it as Failed")
	}
	return nil
}
