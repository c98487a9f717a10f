package rehearsals_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptTrust_RehearsalOfObjects rehearses a backup on a control plane without a node: what is written, what is
// tried, and what is left out.
func TestAcceptTrust_RehearsalOfObjects(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve()
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-, labels: {team: a}}}`).GetName()
	objects(s, ns,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: NS}, data: {a: "1"}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: front, namespace: NS}, spec: {type: LoadBalancer,
			externalIPs: [192.0.2.1], ports: [{port: 80}]}}`,
		`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: front, namespace: NS}, spec: {defaultBackend: {
			service: {name: front, port: {number: 80}}}}}`,
		`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: open, namespace: NS}, spec: {podSelector: {},
			ingress: [{}], egress: [{}], policyTypes: [Ingress, Egress]}}`,
		`{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly, namespace: NS}, spec: {schedule: "* * * * *",
			jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: agent, namespace: NS}, spec: {containers: [{name: c, image: i}],
			volumes: [{name: logs, hostPath: {path: /var/log}}]}}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: app, namespace: NS}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: NS}, rules: []}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: r, namespace: NS}, roleRef: {
			apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [
			{kind: ServiceAccount, name: app, namespace: NS}, {kind: User, apiGroup: rbac.authorization.k8s.io, name: mallory}]}`,
	)
	// Those of the cluster are deleted after the backup, so that a real restore would create them.
	role := s.Put(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ` + ns + `}, rules: []}`)
	hook := s.Put(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: ` +
		ns + `}, webhooks: []}`)
	// A pod of the CronJob, which the minute may bring, would not be ready.
	s.Must("backup", "create", "b", "--include-namespaces", ns, "--include-namespace-scoped-resources", "*",
		"--exclude-namespace-scoped-resources", "jobs.batch", "--selector", "!batch.kubernetes.io/job-name",
		"--include-cluster-scoped-resources",
		"clusterroles.rbac.authorization.k8s.io,validatingwebhookconfigurations.admissionregistration.k8s.io", "--wait")
	require.NoError(t, s.Client.Delete(t.Context(), role))
	require.NoError(t, s.Client.Delete(t.Context(), hook))
	report, err := rehearse(s, "b", "--timeout", "30s")
	require.NoError(t, err)
	require.Equal(t, rehearsal.Passed, report.Result, "%+v", report)
	at := func(resource, name string) string { return fmt.Sprintf("%s/%s/%s", resource, ns, name) }
	require.Contains(t, reasonOf(t, report.Changed, at("services", "front")), "ClusterIP instead of LoadBalancer")
	require.Contains(t, reasonOf(t, report.Changed, at("services", "front")), "without spec.externalIPs")
	require.Contains(t, reasonOf(t, report.Changed, at("cronjobs.batch", "nightly")), "suspended")
	require.Contains(t, reasonOf(t, report.Changed, at("rolebindings.rbac.authorization.k8s.io", "r")), "subjects outside")
	require.Contains(t, reasonOf(t, report.NotTried, at("ingresses.networking.k8s.io", "front")), "let traffic in")
	require.Contains(t, reasonOf(t, report.NotTried, at("networkpolicies.networking.k8s.io", "open")), "could open")
	require.Contains(t, reasonOf(t, report.NotTried, at("pods", "agent")), "hostPath")
	require.Contains(t, reasonOf(t, report.NotTried, "clusterroles.rbac.authorization.k8s.io/"+ns),
		"accepts it in a dry run")
	require.Contains(t, reasonOf(t, report.NotTried,
		"validatingwebhookconfigurations.admissionregistration.k8s.io/"+ns), "accepts it in a dry run")
	for _, o := range []*unstructured.Unstructured{role, hook} {
		err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		require.True(t, apierrors.IsNotFound(err), "%s must not be written: %v", o.GetKind(), err)
	}
	require.Positive(t, report.Times.Estimate)
	requireNothingLeft(s)

	require.Contains(t, s.Must("backup", "describe", "b"), "Last rehearsal")
	require.Contains(t, s.Must("backup", "rehearsals"), "Passed")
	require.Contains(t, s.Must("backup", "rehearsals", "b", "--id", "last"), "suspended")
}

// TestDocumentsCommandsOfRehearsals runs the commands of the page about rehearsals.
func TestDocumentsCommandsOfRehearsals(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	s.Serve()
	s.Available()
	shop(s, "nightly")
	require.Equal(t, 3, s.RunPage(t, "rehearsals", "", ""))
}
