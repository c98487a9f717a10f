package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

// AgentsName is the name of the DaemonSet that runs cleat's node agents in place of Velero's.
const AgentsName = "cleat-node-agent"

const (
	// nodesAnnotation of a DaemonSet of Velero is its node selector before it was taken over. nowhere replaces it.
	nodesAnnotation = "cleat.dev/taken-over-node-selector"
	// takenOverLabel is in the node selector of a DaemonSet of Velero that was taken over. No node has it.
	takenOverLabel = "cleat.dev/taken-over"
)

func nowhere() map[string]string { return map[string]string{takenOverLabel: "matches-no-node"} }

// veleroAgents returns Velero's DaemonSets of node agents.
func (t *Takeover) veleroAgents(ctx context.Context) ([]appsv1.DaemonSet, error) {
	var list appsv1.DaemonSetList
	if err := t.list(ctx, &list); err != nil {
		return nil, fmt.Errorf("look for node agents: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(d appsv1.DaemonSet) bool {
		template := &d.Spec.Template
		return template.Labels[nodeagents.RoleLabel] != nodeagents.Role || runsCleat(&d)
	}), nil
}

// runsCleat reports whether a DaemonSet runs cleat's node agents.
func runsCleat(d *appsv1.DaemonSet) bool {
	return d.Spec.Template.Labels[nodeagents.CleatLabel] == "true" || slices.ContainsFunc(d.Spec.Template.Spec.Containers,
		func(c corev1.Container) bool { return isCleat(c.Image) })
}

// runsOnWindows reports whether a DaemonSet is for Windows nodes, on which cleat has no agents.
func runsOnWindows(d *appsv1.DaemonSet) bool {
	pod := &d.Spec.Template.Spec
	return pod.NodeSelector[corev1.LabelOSStable] == "windows" || pod.OS != nil && pod.OS.Name == corev1.Windows ||
		d.Name == install.DaemonSetName+"-windows"
}

// stopAgents stops a DaemonSet of Velero, and waits until none of its pods is left.
func (t *Takeover) stopAgents(ctx context.Context, d *appsv1.DaemonSet) error {
	if _, stopped := d.Annotations[nodesAnnotation]; !stopped {
		former, err := json.Marshal(d.Spec.Template.Spec.NodeSelector)
		if err != nil {
			return err
		}
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, nodesAnnotation, string(former))
		d.Spec.Template.Spec.NodeSelector = nowhere()
		if err := t.patch(ctx, d, before); err != nil {
			return err
		}
		t.Report("daemonset/"+d.Name, "stopped: it selects no node")
	}
	stops := func(ctx context.Context) (bool, error) { // until then a pod may yet be created
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(d), d)
		return d.Status.ObservedGeneration >= d.Generation && d.Status.CurrentNumberScheduled == 0, err
	}
	err := errors.Join(wait.PollUntilContextCancel(ctx, poll, true, stops),
		t.awaitNoPods(ctx, withoutCleat(d.Spec.Selector)))
	if err != nil {
		return fmt.Errorf("wait for the end of the pods of DaemonSet %s: %w", d.Name, err)
	}
	return nil
}

// formerNodes returns the node selector of a DaemonSet of Velero before it was taken over.
func formerNodes(d *appsv1.DaemonSet) (nodes map[string]string, stopped bool, err error) {
	text, stopped := d.Annotations[nodesAnnotation]
	if !stopped {
		return d.Spec.Template.Spec.NodeSelector, false, nil
	}
	if err := json.Unmarshal([]byte(text), &nodes); err != nil {
		return nil, true, fmt.Errorf("annotation %s of DaemonSet %s is %q, want a node selector as JSON: %w",
			nodesAnnotation, d.Name, text, err)
	}
	return nodes, true, nil
}

// startAgents lets a DaemonSet of Velero run again as before.
func (t *Takeover) startAgents(ctx context.Context, d *appsv1.DaemonSet) error {
	nodes, stopped, err := formerNodes(d)
	if err != nil || !stopped {
		return err
	}
	before := d.DeepCopy()
	delete(d.Annotations, nodesAnnotation)
	d.Spec.Template.Spec.NodeSelector = nodes
	if err := t.patch(ctx, d, before); err != nil {
		return err
	}
	t.Report("daemonset/"+d.Name, "runs again")
	return nil
}

// agents returns the DaemonSet that runs cleat's node agents: as "cleat install" makes it, where and with what Velero's
// runs.
func (t *Takeover) agents(velero *appsv1.DaemonSet, movers []string) (*appsv1.DaemonSet, error) {
	nodes, _, err := formerNodes(velero)
	if err != nil {
		return nil, err
	}
	former := velero.Spec.Template.DeepCopy()
	arguments, container, err := agentArguments(velero)
	if err != nil {
		return nil, err
	}
	options := &install.Options{
		Namespace: t.Namespace, Image: t.Image, Tolerations: former.Spec.Tolerations,
		PodLabels: former.Labels, PodAnnotations: former.Annotations,
		NodeAgent: &install.NodeAgent{
			Plugins: movers, Args: t.AgentArguments(arguments).Kept, Resources: container.Resources,
			PriorityClassName: former.Spec.PriorityClassName, KubeletRoot: install.KubeletRoot,
			Privileged: t.Privileged || isPrivileged(container),
		},
	}
	for _, volume := range former.Spec.Volumes {
		if volume.Name == "host-pods" && volume.HostPath != nil {
			options.NodeAgent.KubeletRoot = path.Dir(volume.HostPath.Path)
		}
	}
	cleat := install.NodeAgents(options, former.Spec.ServiceAccountName)
	cleat.Name = AgentsName
	metav1.SetMetaDataLabel(&cleat.ObjectMeta, serverLabel, velero.Name)
	metav1.SetMetaDataLabel(&cleat.Spec.Template.ObjectMeta, serverLabel, velero.Name)
	cleat.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{serverLabel: velero.Name}}
	adopt(&cleat.Spec.Template.Spec, &former.Spec, container)
	cleat.Spec.MinReadySeconds = announce(&cleat.Spec.Template.Spec.Containers[0])
	maps.Copy(cleat.Spec.Template.Spec.NodeSelector, nodes)
	return cleat, nil
}

// adopt gives the pods of cleat's agents what those of Velero have and a user may have set: where they run, secrets,
// variables and volumes.
func adopt(pod, former *corev1.PodSpec, container *corev1.Container) {
	pod.Affinity, pod.ImagePullSecrets, pod.HostNetwork, pod.DNSPolicy, pod.DNSConfig = former.Affinity,
		former.ImagePullSecrets, former.HostNetwork, former.DNSPolicy, former.DNSConfig
	own := &pod.Containers[0]
	for _, variable := range container.Env {
		if !slices.ContainsFunc(own.Env, func(e corev1.EnvVar) bool { return e.Name == variable.Name }) {
			own.Env = append(own.Env, variable)
		}
	}
	own.EnvFrom = container.EnvFrom
	for _, mount := range container.VolumeMounts {
		at := slices.IndexFunc(former.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if at < 0 || slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
			continue
		}
		pod.Volumes, own.VolumeMounts = append(pod.Volumes, former.Volumes[at]), append(own.VolumeMounts, mount)
	}
}

func isPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// agentArguments returns the arguments after "server" of Velero's node agents, and the container that runs them.
func agentArguments(velero *appsv1.DaemonSet) ([]string, *corev1.Container, error) {
	for i := range velero.Spec.Template.Spec.Containers {
		c := &velero.Spec.Template.Spec.Containers[i]
		line := slices.Concat(c.Command, c.Args)
		if at := slices.Index(line, "server"); at > 0 && line[at-1] == "node-agent" {
			return line[at+1:], c, nil
		}
	}
	return nil, nil, fmt.Errorf("no container of DaemonSet %s runs \"velero node-agent server\" with flags", velero.Name)
}

// movers returns the images of the data movers: those that were given, or those for the repositories that exist.
func (t *Takeover) movers(ctx context.Context) ([]string, error) {
	if len(t.Movers) > 0 {
		return t.Movers, nil
	}
	var repositories velerov1.BackupRepositoryList
	if err := ignoreAbsent(t.list(ctx, &repositories)); err != nil {
		return nil, err
	}
	images := []string{t.MoverOf[velerov1.RepositoryTypeKopia]}
	if slices.ContainsFunc(repositories.Items, func(r velerov1.BackupRepository) bool {
		return r.Spec.RepositoryType == velerov1.RepositoryTypeRestic
	}) {
		images = append(images, t.MoverOf[velerov1.RepositoryTypeRestic])
	}
	return images, nil
}

// removeAgents deletes cleat's DaemonSet, and waits until none of its pods is left.
func (t *Takeover) removeAgents(ctx context.Context) error {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: AgentsName}}
	err := t.Client.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete DaemonSet %s: %w", AgentsName, err)
	}
	gone := func(ctx context.Context) (bool, error) {
		err := t.Client.Get(ctx, client.ObjectKeyFromObject(d), d)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	pods := &metav1.LabelSelector{MatchLabels: map[string]string{nodeagents.RoleLabel: nodeagents.Role,
		nodeagents.CleatLabel: "true"}}
	if err := errors.Join(wait.PollUntilContextCancel(ctx, poll, true, gone), t.awaitNoPods(ctx, pods)); err != nil {
		return fmt.Errorf("wait for the end of cleat's node agents: %w", err)
	}
	t.Report("daemonset/"+AgentsName, "deleted")
	return nil
}

// AwaitAgents waits until the pods of cleat's DaemonSet are available, if there is one.
func (t *Takeover) AwaitAgents(ctx context.Context, waiting func(why string)) error {
	err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: AgentsName}, new(appsv1.DaemonSet))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return install.AwaitNodeAgents(ctx, t.Client, t.Namespace, AgentsName, waiting)
}
