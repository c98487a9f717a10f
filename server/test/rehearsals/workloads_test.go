package rehearsals_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/test/pods"
	"github.com/cleat-dev/cleat/server/test/site"
)

// running waits until a pod runs, and returns its address.
func running(s *site.Site, namespace, name string) (ip string) {
	s.T.Helper()
	s.Eventually("pod "+name+" is ready", func(ctx context.Context) (bool, error) {
		var pod corev1.Pod
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
		ip = pod.Status.PodIP
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return true, err
			}
		}
		return false, err
	})
	return ip
}

// TestAcceptTrust_Rehearsal rehearses a backup whose workloads run on a real kubelet: a check that passes and one that
// fails, pods that never start or ask for more than the limits, and an attempt to reach another namespace.
func TestAcceptTrust_Rehearsal(t *testing.T) {
	t.Parallel()
	s := newOnNode(t)
	pods.EnforcePolicies(t, s.Cluster)
	s.Serve("--config", site.ConfigFile(t, "restores: {rehearsals: {podSecurity: Baseline, limits: {memory: 512Mi}}}"))
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-}}`).GetName()
	other := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: prod-}}`).GetName()
	pod := func(name, annotations, args, more string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: NS, annotations: {%s}}, spec: {
			terminationGracePeriodSeconds: 1, containers: [{name: c, image: %s, imagePullPolicy: Never, args: %s%s}]}}`,
			name, annotations, image, args, more)
	}
	objects(s, other, pod("database", "", `[serve, ":7000"]`, ""))
	outside := running(s, other, "database") + ":7000"
	check := func(command string) string { return `cleat.dev/rehearsal-check: '` + command + `'` }
	objects(s, ns,
		pod("reaches", check(`["/shop","shut","`+outside+`"]`), `[serve, ":7000"]`, ""),
		pod("fails", check(`["/shop","fail"]`), `[serve, ":7000"]`, ""),
		pod("never", "", `[serve, ":7000"]`, `, readinessProbe: {tcpSocket: {port: 9999}, periodSeconds: 1}`),
		pod("greedy", "", `[serve, ":7000"]`, `, resources: {requests: {memory: 1Gi}}`),
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: NS}, spec: {selector: {matchLabels: {a: web}},
			template: {metadata: {labels: {a: web}, annotations: {cleat.dev/rehearsal-check: '["/shop","done"]'}}, spec: {
			terminationGracePeriodSeconds: 1, containers: [{name: c, image: `+image+`, imagePullPolicy: Never,
			args: [serve, ":7000"]}]}}}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: large, namespace: NS}, spec: {selector: {matchLabels: {a: large}},
			template: {metadata: {labels: {a: large}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: c,
			image: `+image+`, imagePullPolicy: Never, args: [serve, ":7000"], resources: {requests: {memory: 1Gi}}}]}}}}`,
	)
	running(s, ns, "reaches")
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--wait")
	report, err := rehearse(s, "b", "--timeout", "40s")
	require.ErrorContains(t, err, "Failed")
	require.Equal(t, rehearsal.Failed, report.Result, "%+v", report)

	checks := map[string]string{}
	for _, c := range report.Checks {
		require.Equal(t, ns, c.Namespace)
		checks[c.Command[1]] = c.Error
	}
	require.Len(t, checks, 3)
	require.Empty(t, checks["done"])
	require.Empty(t, checks["shut"], "the pod of another namespace must not be reached")
	require.Contains(t, checks["fail"], "the shelves are empty")
	require.Contains(t, reasonOf(t, report.NotReady, "pods/"+ns+"/never"), "not ready")
	require.Contains(t, reasonOf(t, report.NotReady, "deployments.apps/"+ns+"/large"), "memory")
	require.Equal(t, 2, report.NotReady.Count, "%v", report.NotReady)
	require.Contains(t, reasonOf(t, report.Missing, "pods/"+ns+"/greedy"), "memory")
	require.Empty(t, report.Problems)
	requireNothingLeft(s)
	running(s, other, "database") // as before
}
