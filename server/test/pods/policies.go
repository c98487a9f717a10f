package pods

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// EnforcePolicies enforces the NetworkPolicies of a cluster on its node until the test ends, as the network plugins of
// real clusters do: a moment after the start of a pod, its routes to pods that it must not reach, or that must not
// reach it, become unreachable. Ports are not taken into account. Without the program ip, the test is skipped.
func EnforcePolicies(t *testing.T, cluster *controlplane.Cluster) {
	t.Helper()
	ip, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("no NetworkPolicies can be enforced here: ", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	api, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	e := &enforcer{cluster: cluster, api: api, ip: ip, spaces: map[string]string{}, routes: map[string]bool{}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for last := ""; ctx.Err() == nil; {
			if err := e.enforce(ctx); err != nil && ctx.Err() == nil && err.Error() != last {
				last = err.Error()
				t.Logf("enforce the NetworkPolicies: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// enforcer enforces NetworkPolicies.
type enforcer struct {
	cluster *controlplane.Cluster
	api     kubernetes.Interface
	ip      string
	spaces  map[string]string // network namespaces by the addresses of their pods
	routes  map[string]bool   // that were made: "namespace destination"
}

// world is what policies are about.
type world struct {
	pods       []corev1.Pod
	namespaces map[string]labels.Set
	policies   []networkingv1.NetworkPolicy
}

// enforce makes the routes of all pods.
func (e *enforcer) enforce(ctx context.Context) error {
	var w world
	policies, err := e.api.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{})
	if err != nil || len(policies.Items) == 0 {
		return err
	}
	w.policies = policies.Items
	namespaces, err := e.api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w.namespaces = map[string]labels.Set{}
	for i := range namespaces.Items {
		w.namespaces[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	pods, err := e.api.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w.pods = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.PodIP == "" || p.Spec.HostNetwork })
	for i := range w.pods {
		pod := &w.pods[i]
		out, in := w.isolated(pod, networkingv1.PolicyTypeEgress), w.isolated(pod, networkingv1.PolicyTypeIngress)
		if out {
			if err := e.shut(ctx, pod, "default"); err != nil {
				return err
			}
		}
		for k := range w.pods {
			peer := &w.pods[k]
			if peer.Status.PodIP == pod.Status.PodIP {
				continue
			}
			if out && !w.allows(pod, peer, networkingv1.PolicyTypeEgress) || in &&
				!w.allows(pod, peer, networkingv1.PolicyTypeIngress) {
				if err := e.shut(ctx, pod, peer.Status.PodIP+"/32"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isolated reports whether a policy of a type selects a pod.
func (w *world) isolated(pod *corev1.Pod, kind networkingv1.PolicyType) bool {
	return slices.ContainsFunc(w.policies, func(p networkingv1.NetworkPolicy) bool { return selects(&p, pod, kind) })
}

func selects(p *networkingv1.NetworkPolicy, pod *corev1.Pod, kind networkingv1.PolicyType) bool {
	return p.Namespace == pod.Namespace && slices.Contains(p.Spec.PolicyTypes, kind) && matches(&p.Spec.PodSelector,
		pod.Labels)
}

func matches(selector *metav1.LabelSelector, of labels.Set) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(of)
}

// allows reports whether a policy lets a pod reach another one, or be reached by it.
func (w *world) allows(pod, peer *corev1.Pod, kind networkingv1.PolicyType) bool {
	for i := range w.policies {
		p := &w.policies[i]
		if !selects(p, pod, kind) {
			continue
		}
		var rules [][]networkingv1.NetworkPolicyPeer
		for _, rule := range p.Spec.Ingress {
			if kind == networkingv1.PolicyTypeIngress {
				rules = append(rules, rule.From)
			}
		}
		for _, rule := range p.Spec.Egress {
			if kind == networkingv1.PolicyTypeEgress {
				rules = append(rules, rule.To)
			}
		}
		for _, peers := range rules {
			if len(peers) == 0 || slices.ContainsFunc(peers, func(one networkingv1.NetworkPolicyPeer) bool {
				return w.isPeer(p.Namespace, &one, peer)
			}) {
				return true
			}
		}
	}
	return false
}

func (w *world) isPeer(namespace string, one *networkingv1.NetworkPolicyPeer, peer *corev1.Pod) bool {
	switch {
	case one.IPBlock != nil:
		return false // no test has one
	case one.NamespaceSelector == nil && peer.Namespace != namespace,
		one.NamespaceSelector != nil && !matches(one.NamespaceSelector, w.namespaces[peer.Namespace]),
		one.PodSelector != nil && !matches(one.PodSelector, peer.Labels):
		return false
	}
	return true
}

// shut makes a destination unreachable for a pod.
func (e *enforcer) shut(ctx context.Context, pod *corev1.Pod, destination string) error {
	space, err := e.space(ctx, pod.Status.PodIP)
	if err != nil || space == "" || e.routes[space+" "+destination] {
		return err
	}
	in := "--net=/var/run/netns/" + space
	if _, err := e.run(ctx, in, e.ip, "route", "replace", "unreachable", destination); err != nil {
		return err
	}
	if destination == "default" { // it has another metric than that of the network plugin
		_, _ = e.run(ctx, in, e.ip, "route", "del", "default", "dev", "eth0")
	}
	e.routes[space+" "+destination] = true
	return nil
}

var addressOf = regexp.MustCompile(`inet ([0-9.]+)/`)

// space returns the network namespace of the pod with an address, "" if that is not known yet.
func (e *enforcer) space(ctx context.Context, address string) (string, error) {
	if known := e.spaces[address]; known != "" {
		if _, err := OnNode(ctx, e.cluster, "/bin/ls", "/var/run/netns/"+known).Output(); err == nil {
			return known, nil
		}
		delete(e.spaces, address)
	}
	list, err := OnNode(ctx, e.cluster, "/bin/ls", "/var/run/netns").Output()
	if err != nil {
		return "", fmt.Errorf("list the network namespaces of the node: %w", err)
	}
	for _, name := range strings.Fields(string(list)) {
		out, err := e.run(ctx, "--net=/var/run/netns/"+name, e.ip, "-4", "-o", "addr", "show", "dev", "eth0")
		if match := addressOf.FindStringSubmatch(out); err == nil && match != nil {
			e.spaces[match[1]] = name
		}
	}
	return e.spaces[address], nil
}

func (e *enforcer) run(ctx context.Context, args ...string) (string, error) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return "", err
	}
	out, err := OnNode(ctx, e.cluster, nsenter, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
