package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

const (
	// holder has the lease of cleat's servers while Velero's server may run.
	holder = "cleat takeover start"
	// heldSeconds is how long they stand by if nobody goes on with the take-over: ten years.
	heldSeconds = 10 * 365 * 24 * 3600
	// stableSeconds is how long a program has to run to be ready, if it cannot be asked whether it is.
	stableSeconds = 10
	// removeTimeout is how long it may take to remove what is not ready.
	removeTimeout = 5 * time.Minute
)

// runBeside starts cleat beside Velero, and waits until it is ready. Its agents leave the loads of Velero to Velero's
// while there are some, and its servers stand by until Start releases their lease. If it is not ready in time, it is
// removed.
func (t *Takeover) runBeside(ctx context.Context, velero *appsv1.Deployment, agents []appsv1.DaemonSet) error {
	if err := t.holdLease(ctx); err != nil {
		return err
	}
	err := t.run(ctx, velero, max(1, *velero.Spec.Replicas), agents)
	if err == nil && t.ReadyTimeout > 0 {
		err = t.awaitReady(ctx)
	}
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	why := t.unready(undo)
	if removal := t.remove(undo, velero); removal != nil {
		err = errors.Join(err, fmt.Errorf("remove what is not ready: %w", removal))
	}
	return fmt.Errorf("cleat is not ready, so it is removed, and nothing of Velero was stopped: %w%s", err, why)
}

// awaitReady waits for cleat's agents and servers, for a limited time.
func (t *Takeover) awaitReady(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, t.ReadyTimeout)
	defer cancel()
	if err := t.AwaitAgents(limited, func(why string) { t.Waiting("DaemonSet "+AgentsName, why) }); err != nil {
		return err
	}
	return install.AwaitServer(limited, t.Client, t.Namespace, Name,
		func(why string) { t.Waiting("Deployment "+Name, why) })
}

// unready returns why pods of cleat are not ready, in the form of an appendix to an error.
func (t *Takeover) unready(ctx context.Context) string {
	var pods corev1.PodList
	if t.Client.List(ctx, &pods, client.InNamespace(t.Namespace), client.HasLabels{serverLabel}) != nil {
		return ""
	}
	text := ""
	for i := range pods.Items {
		status := &pods.Items[i].Status
		var why []string
		for _, c := range status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				why = append(why, c.Message)
			}
		}
		for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
			if waiting := c.State.Waiting; waiting != nil {
				why = append(why, strings.TrimSpace(c.Name+" waits: "+waiting.Reason+" "+waiting.Message))
			}
			if last := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated); last != nil && last.ExitCode != 0 {
				why = append(why, strings.TrimSpace(fmt.Sprintf("%s has ended with exit code %d %s", c.Name, last.ExitCode,
					last.Message)))
			}
		}
		if len(why) > 0 {
			text += fmt.Sprintf("\npod %s: %s", pods.Items[i].Name, strings.Join(why, "; "))
		}
	}
	return text
}

// announce has Kubernetes ask a program whether it is ready, and keep what it says at its end. It returns the
// minReadySeconds of the pods: if the program is not asked, it has to run for a while.
func announce(c *corev1.Container) (seconds int32) {
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	if c.ReadinessProbe == nil {
		c.ReadinessProbe = install.Readiness(c.Args)
	}
	if c.ReadinessProbe == nil {
		return stableSeconds
	}
	return 0
}

// holdLease takes the lease of cleat's servers.
func (t *Takeover) holdLease(ctx context.Context) error {
	lease, err := t.lease(ctx)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	now := metav1.NowMicro()
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new(holder), LeaseDurationSeconds: new(int32(heldSeconds)),
		AcquireTime: &now, RenewTime: &now}
	if err != nil {
		err = t.Client.Create(ctx, lease)
	} else {
		err = t.Client.Update(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("hold the Lease %s, so that cleat's servers stand by: %w", t.Lease, err)
	}
	return nil
}

// releaseLease lets a server of cleat work, if the lease was held.
func (t *Takeover) releaseLease(ctx context.Context) error {
	lease, err := t.lease(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if held := lease.Spec.HolderIdentity; err == nil && (held == nil || *held != holder) {
		return nil
	}
	if err == nil {
		lease.Spec.HolderIdentity = new("")
		err = t.Client.Update(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("release the Lease %s, for which cleat's servers wait: %w", t.Lease, err)
	}
	t.Report("lease/"+t.Lease, "released: cleat works")
	return nil
}

func (t *Takeover) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Lease}}
	return lease, t.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease)
}
