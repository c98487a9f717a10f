package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
)

// Velero's agents take every PodVolumeBackup and PodVolumeRestore of the namespace whose pod is on their node, and
// every DataUpload and DataDownload that names Velero's data mover, which no load of this server does. So that agents
// of both never work on the same load:
//
//   - The actions that create loads create none for a node on which an agent of Velero runs.
//   - An agent does not accept a load while an agent of Velero runs on its node, or has made a pod for the load.
//   - A load that this server has not created is left to the agents of Velero, while there are some in the namespace.

// isVeleros reports whether a load can be one that Velero's server has created and Velero's agents take.
func (l *load) isVeleros() bool {
	return l.GetAnnotations()[velerov1.LoadSignatureAnnotation] == "" &&
		(l.podLabel == "" || velerov1.IsVeleroDataMover(l.spec.mover))
}

// isForeign reports whether a load for which an agent has no mover belongs to another controller. A built-in mover is one
// of node agents: if they do not have it, nobody moves the data.
func (l *load) isForeign() bool { return l.podLabel != "" && !velerov1.IsBuiltInMover(l.spec.mover) }

// rival returns why an agent of Velero may work on a load of this node, "" if none does.
func (a *Agent) rival(ctx context.Context, l *load) (string, error) {
	if l.podLabel != "" {
		return "", nil
	}
	var agents corev1.PodList // the cache has the pods of this node
	if err := a.List(ctx, &agents, client.InNamespace(a.Namespace),
		client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role}); err != nil {
		return "", fmt.Errorf("look for agents of Velero: %w", err)
	}
	if velero := nodeagents.FindVelero(agents.Items, a.Node); velero != nil {
		return fmt.Sprintf("pod %s/%s on node %s is a node agent of Velero, which may move the data, too; \"cleat takeover "+
			"start\" replaces the agents of Velero", a.Namespace, velero.Name, a.Node), nil
	}
	if l.status.Phase.IsNew() {
		return "", nil
	}
	// Somebody else has written the status. A pod of Velero moves data when the load is InProgress, without its agent.
	var pod corev1.Pod
	err := a.Live.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: l.GetName()}, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for a pod of Velero: %w", err)
	}
	return fmt.Sprintf("an agent of Velero has begun to move its data in pod %s/%s", a.Namespace, pod.Name), nil
}

// veleros records whether there are agents of Velero in the namespace.
type veleros struct {
	looked time.Time
	found  bool
}

// besideVelero reports whether there are agents of Velero in the namespace, with a delay of a few seconds.
func (q *admission) besideVelero(ctx context.Context, now time.Time) (bool, error) {
	const delay = 5 * time.Second
	if known := &q.veleros; !known.looked.IsZero() && now.Sub(known.looked) < delay {
		return known.found, nil
	}
	var agents corev1.PodList
	if err := q.Live.List(ctx, &agents, client.InNamespace(q.Namespace),
		client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role}); err != nil {
		return false, fmt.Errorf("look for agents of Velero: %w", err)
	}
	q.veleros = veleros{now, nodeagents.FindVelero(agents.Items, "") != nil}
	return q.veleros.found, nil
}
