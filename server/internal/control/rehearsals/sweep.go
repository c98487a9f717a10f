package rehearsals

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// Sweep deletes what rehearsals have made whose Restore does not exist any more, at the start of the server and every
// few minutes. Their finalizer keeps that from happening, unless people have removed it.
type Sweep struct {
	*run.Cluster
	Log hclog.Logger
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
	if len(namespaces.Items) == 0 {
		return nil
	}
	var restores velerov1.RestoreList // after the namespaces, so that each that is at work is among them
	if err := w.Live.List(ctx, &restores, client.InNamespace(w.Namespace)); err != nil {
		return fmt.Errorf("list the rehearsals: %w", err)
	}
	known := map[string]bool{}
	for i := range restores.Items {
		known[string(restores.Items[i].UID)] = true
	}
	for i := range namespaces.Items {
		uid := namespaces.Items[i].Labels[velerov1.RehearsalLabel]
		if known[uid] {
			continue
		}
		known[uid] = true
		w.Log.Warn("deleting the namespaces of a rehearsal whose Restore does not exist any more", "uid", uid)
		if _, err := (cleaner{w.Client, w.Live, w.Namespace}).clean(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}
