package rehearsals

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// Sweep deletes what rehearsals have made whose Restore does not exist any more, at the start of the server and every
// few minutes. Their finalizer keeps that from happening, unless people have removed it.
type Sweep struct {
	*run.Cluster
	Proofs Proofs
	Log    hclog.Logger
}

const sweepPause = 5 * time.Minute

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Sweep) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (w *Sweep) Start(ctx context.Context) error {
	for {
		if err := w.sweep(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("could not look for what rehearsals have left; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepPause):
		}
	}
}

func (w *Sweep) sweep(ctx context.Context) error {
	var namespaces corev1.NamespaceList
	if err := w.Live.List(ctx, &namespaces, client.MatchingLabels{installationLabel: w.Namespace},
		client.HasLabels{velerov1.RehearsalLabel}); err != nil {
		return fmt.Errorf("list the namespaces of rehearsals: %w", err)
	}
	classes, err := classesOf(ctx, w.Live, w.Namespace)
	if err != nil || len(namespaces.Items)+len(classes) == 0 {
		return err
	}
	var restores velerov1.RestoreList // after the others, so that each that is at work is among them
	if err := w.Live.List(ctx, &restores, client.InNamespace(w.Namespace)); err != nil {
		return fmt.Errorf("list the rehearsals: %w", err)
	}
	known := map[string]bool{}
	for i := range restores.Items {
		known[string(restores.Items[i].UID)] = true
	}
	if err := dropClasses(ctx, w.Client, classes, func(uid string) bool { return !known[uid] }); err != nil {
		return err
	}
	for i := range namespaces.Items {
		uid := namespaces.Items[i].Labels[velerov1.RehearsalLabel]
		if known[uid] {
			continue
		}
		known[uid] = true
		w.Log.Warn("the Restore of a rehearsal does not exist any more, so what it has made is deleted", "uid", uid)
		left, err := cleaner{w.Client, w.Live, w.Proofs}.clean(ctx, types.UID(uid), nil)
		if err != nil {
			return err
		}
		left.warn(w.Log)
	}
	return nil
}
