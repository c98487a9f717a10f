package takeover

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

// replicasAnnotation of Velero's Deployment is the number of its pods before it was taken over.
const replicasAnnotation = "cleat.dev/taken-over-replicas"

const poll = 200 * time.Millisecond

// Takeover is the replacement of the Velero of a namespace.
type Takeover struct {
	Client    client.Client
	Namespace string
	Image     string                     // of cleat
	Lease     string                     // that the leading server holds
	Report    func(name, action string)  // is called after each step
	Arguments func(args []string) Parsed // reads the arguments of a server

	// Movers are the images of the data movers; empty means those for the repositories that exist, of MoverOf.
	Movers         []string
	MoverOf        map[velerov1.RepositoryType]string
	AgentArguments func(args []string) Parsed // reads the arguments of a node agent
	Privileged     bool                       // runs privileged node agents, although Velero's are not
	LoadTimeout    time.Duration              // how long loads under way may take before they are cancelled

	// CheckVolumes returns an error unless data movers can keep the data of volumes in a location.
	CheckVolumes func(spec *velerov1.BackupStorageLocationSpec) error
	// ReadyTimeout is how long cleat may take to be ready beside Velero; 0 does not wait for it.
	ReadyTimeout time.Duration
	Waiting      func(what, why string) // is called when the reason to wait changes
}

// Check reads, as a program of cleat would, what its flags name in the cluster. It returns what has no effect, and what
// is wrong.
type Check func(
	ctx context.Context, reader client.Reader, namespace string, repositories []velerov1.BackupRepository,
) (without, wrong []string)

// Parsed is what cleat makes of the arguments of a Velero server.
type Parsed struct {
	Kept     []string // flags that cleat has
	Unknown  []string // flags that it lacks
	Warnings []string // on flags that have no effect
	Err      error    // of values that cleat refuses
	Check    Check    // nil after an error
}

// Start takes over: it starts cleat, whose server stands by, waits until it is ready, lets loads under way end, stops
// Velero and its node agents, waits until none of their pods is left, and lets cleat's server work. Nothing is stopped
// unless cleat is ready. Start may be called again after an error.
func (t *Takeover) Start(ctx context.Context) error {
	velero, err := t.velero(ctx)
	if err != nil {
		return err
	}
	err = install.CompleteDefinitions(ctx, t.Client, false,
		func(name, action string) { t.Report("customresourcedefinition/"+name, action) })
	if err != nil {
		return err
	}
	replicas, stopped, err := takenOver(velero)
	if err != nil {
		return err
	}
	agents, err := t.veleroAgents(ctx)
	if err != nil {
		return err
	}
	if stopped {
		err = t.run(ctx, velero, max(1, replicas), agents)
	} else {
		err = t.runBeside(ctx, velero, agents)
	}
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, t.LoadTimeout)
	defer cancel()
	if !stopped {
		if err := t.letLoadsEnd(ctx, limited, true); err != nil {
			return err
		}
		if velero, err = t.velero(ctx); err != nil {
			return err
		}
		before := velero.DeepCopy()
		replicas = *velero.Spec.Replicas
		metav1.SetMetaDataAnnotation(&velero.ObjectMeta, replicasAnnotation, strconv.Itoa(int(replicas)))
		velero.Spec.Replicas = new(int32)
		if err := t.patch(ctx, velero, before); err != nil {
			return err
		}
		t.Report("deployment/"+velero.Name, fmt.Sprintf("scaled from %d to 0", replicas))
	}
	stops := func(ctx context.Context) (bool, error) { // until then a pod may yet be created
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(velero), velero)
		return velero.Status.ObservedGeneration >= velero.Generation && velero.Status.Replicas == 0, err
	}
	if err := errors.Join(wait.PollUntilContextCancel(ctx, poll, true, stops), t.awaitNoPods(ctx,
		withoutCleat(velero.Spec.Selector))); err != nil {
		return fmt.Errorf("wait for the end of Velero's pods: %w", err)
	}
	if err := t.letLoadsEnd(ctx, limited, false); err != nil { // its server may have created some before its end
		return err
	}
	if err := t.cancelLoads(ctx); err != nil {
		return err
	}
	for i := range agents {
		if err := t.stopAgents(ctx, &agents[i]); err != nil {
			return err
		}
	}
	return t.releaseLease(ctx)
}

// run starts cleat and, if Velero has node agents, cleat's.
func (t *Takeover) run(
	ctx context.Context, velero *appsv1.Deployment, replicas int32, agents []appsv1.DaemonSet,
) error {
	cleat, err := t.deployment(velero, replicas)
	if err != nil {
		return err
	}
	movers, err := t.movers(ctx)
	if err != nil {
		return err
	}
	for i := range agents {
		if runsOnWindows(&agents[i]) {
			continue
		}
		for _, image := range movers { // the server removes what they have stored
			if err := install.AddPlugin(cleat, image, install.PullPolicy(image)); err != nil {
				return err
			}
		}
		set, err := t.agents(&agents[i], movers)
		if err != nil {
			return err
		}
		if err := install.ApplyObject(ctx, t.Client, set); err != nil {
			return fmt.Errorf("apply DaemonSet %s: %w", set.Name, err)
		}
		t.Report("daemonset/"+set.Name, "applied")
		break
	}
	if err := install.ApplyObject(ctx, t.Client, cleat); err != nil {
		return fmt.Errorf("apply Deployment %s: %w", cleat.Name, err)
	}
	t.Report("deployment/"+cleat.Name, "applied")
	return nil
}

// withoutCleat returns a selector of pods of Velero. Those of cleat in their place have their labels, too.
func withoutCleat(selector *metav1.LabelSelector) *metav1.LabelSelector {
	without := selector.DeepCopy()
	without.MatchExpressions = append(without.MatchExpressions,
		metav1.LabelSelectorRequirement{Key: serverLabel, Operator: metav1.LabelSelectorOpDoesNotExist})
	return without
}

// Back puts Velero back: it deletes cleat's Deployment and node agents, waits until none of their pods is left, and
// starts Velero, whose Deployment it names, and its node agents. It may be called again after an error.
func (t *Takeover) Back(ctx context.Context) (name string, err error) {
	velero, err := t.velero(ctx)
	if err != nil {
		return "", err
	}
	replicas, stopped, err := takenOver(velero)
	if err != nil {
		return "", err
	}
	if !stopped {
		return "", fmt.Errorf("namespace %s was not taken over: Deployment %s has no annotation %s", t.Namespace, velero.Name,
			replicasAnnotation)
	}
	if err := t.remove(ctx, velero); err != nil {
		return "", err
	}
	agents, err := t.veleroAgents(ctx)
	if err != nil {
		return "", err
	}
	for i := range agents {
		if err := t.startAgents(ctx, &agents[i]); err != nil {
			return "", err
		}
	}
	before := velero.DeepCopy()
	delete(velero.Annotations, replicasAnnotation)
	velero.Spec.Replicas = &replicas
	if err := t.patch(ctx, velero, before); err != nil {
		return "", err
	}
	t.Report("deployment/"+velero.Name, fmt.Sprintf("scaled from 0 to %d", replicas))
	return velero.Name, nil
}

// remove deletes cleat's Deployment, DaemonSet and lease, and waits until none of their pods is left.
func (t *Takeover) remove(ctx context.Context, velero *appsv1.Deployment) error {
	cleat := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: Name}}
	if err := t.Client.Delete(ctx, cleat,
		client.PropagationPolicy(metav1.DeletePropagationForeground)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Deployment %s: %w", Name, err)
	}
	gone := func(ctx context.Context) (bool, error) {
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(cleat), cleat)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	pods := &metav1.LabelSelector{MatchLabels: map[string]string{serverLabel: velero.Name}}
	if err := errors.Join(wait.PollUntilContextCancel(ctx, poll, true, gone), t.awaitNoPods(ctx, pods)); err != nil {
		return fmt.Errorf("wait for the end of cleat's pods: %w", err)
	}
	t.Report("deployment/"+Name, "deleted")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Lease}}
	if err := t.Client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Lease %s: %w", lease.Name, err)
	}
	return t.removeAgents(ctx)
}

// InProgress returns the backups and restores of the namespace that a server works on, each with its phase.
func (t *Takeover) InProgress(ctx context.Context) (names []string, err error) {
	var backups velerov1.BackupList
	var restores velerov1.RestoreList
	if err := errors.Join(t.list(ctx, &backups), t.list(ctx, &restores)); err != nil {
		return nil, err
	}
	for i := range backups.Items {
		if phase := backups.Items[i].Status.Phase; phase == velerov1.BackupPhaseInProgress {
			names = append(names, "backup "+backups.Items[i].Name)
		}
	}
	for i := range restores.Items {
		if phase := restores.Items[i].Status.Phase; phase == velerov1.RestorePhaseInProgress {
			names = append(names, "restore "+restores.Items[i].Name)
		}
	}
	return names, nil
}

// velero returns Velero's Deployment.
func (t *Takeover) velero(ctx context.Context) (*appsv1.Deployment, error) {
	var list appsv1.DeploymentList
	if err := t.Client.List(ctx, &list, client.InNamespace(t.Namespace), install.ComponentLabels()); err != nil {
		return nil, fmt.Errorf("look for Velero: %w", err)
	}
	others := list.Items[:0]
	for _, d := range list.Items {
		if d.Labels[serverLabel] == "" {
			others = append(others, d)
		}
	}
	velero, err := install.ServerOf(others)
	if err != nil {
		return nil, err
	}
	if image := imageOf(velero); isCleat(image) {
		return nil, fmt.Errorf("the server of namespace %s is cleat already: its image is %s", t.Namespace, image)
	}
	if velero.Spec.Replicas == nil {
		velero.Spec.Replicas = new(int32(1))
	}
	return velero, nil
}

// takenOver reports whether Velero's Deployment was taken over, and the number of its pods before.
func takenOver(velero *appsv1.Deployment) (replicas int32, stopped bool, err error) {
	text, stopped := velero.Annotations[replicasAnnotation]
	if !stopped {
		return 0, false, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, true, fmt.Errorf("annotation %s of Deployment %s is %q, want a number of pods", replicasAnnotation,
			velero.Name, text)
	}
	return int32(n), true, nil
}

// patch writes the changes of a Deployment or DaemonSet, unless another client has changed it meanwhile.
func (t *Takeover) patch(ctx context.Context, d, before client.Object) error {
	err := t.Client.Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("somebody else changes %T %s; run the command again: %w", d, d.GetName(), err)
	}
	if err != nil {
		return fmt.Errorf("change %T %s: %w", d, d.GetName(), err)
	}
	return nil
}

// awaitNoPods waits until no pod has the labels.
func (t *Takeover) awaitNoPods(ctx context.Context, labels *metav1.LabelSelector) error {
	selector, err := metav1.LabelSelectorAsSelector(labels)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := t.Client.List(ctx, &pods, client.InNamespace(t.Namespace), client.MatchingLabelsSelector{Selector: selector})
		return len(pods.Items) == 0, err
	})
}

func (t *Takeover) list(ctx context.Context, list client.ObjectList) error {
	return t.Client.List(ctx, list, client.InNamespace(t.Namespace))
}
