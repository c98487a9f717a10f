package restores_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
)

// chainOfGates creates webhooks, each of which admits the pod that serves the one before, so that no pod of theirs is
// ever there when they are restored. It returns all objects but the namespace.
func chainOfGates(s *site.Site, namespace string, links int) (objects []*unstructured.Unstructured) {
	s.T.Helper()
	put := func(format string, args ...any) { objects = append(objects, s.Put(fmt.Sprintf(format, args...))) }
	put(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: app, namespace: %s}}`, namespace)
	for i := range links + 1 {
		put(`{apiVersion: v1, kind: Pod, metadata: {name: gate-%d, namespace: %s, labels: {chain: %[2]s, gate: gate-%[1]d}}, `+
			`spec: {serviceAccountName: app, containers: [{name: c, image: "x.invalid/x:1"}]}}`, i, namespace)
		put(`{apiVersion: v1, kind: Service, metadata: {name: gate-%d, namespace: %s, labels: {chain: %[2]s}}, `+
			`spec: {selector: {gate: gate-%[1]d}, ports: [{port: 443}]}}`, i, namespace)
	}
	for i := range links {
		put(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: %s-%d, `+
			`labels: {chain: %[1]s}}, webhooks: [{name: gate-%[2]d.%[1]s.example.com, admissionReviewVersions: [v1], `+
			`sideEffects: None, timeoutSeconds: 1, clientConfig: {service: {namespace: %[1]s, name: gate-%[3]d}}, `+
			`namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}, objectSelector: {matchLabels: {gate: `+
			`gate-%[2]d}}, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}]}`,
			namespace, i, i+1)
	}
	return objects
}

// TestAcceptSecurity_ChainOfGates restores a chain of webhooks that never serve, in the only slot of the server. Another
// restore ends meanwhile, and the whole chain gets the time for one wait.
func TestAcceptSecurity_ChainOfGates(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := s.Serve("--concurrent-restores", "1", "--resource-timeout", "5h")
	s.Available()
	const links = 4
	shop, other := s.Workload(0), s.Workload(1)
	objects := chainOfGates(s, shop, links)
	remove := func() {
		for _, o := range objects[1:] {
			err := s.Client.Delete(context.Background(), o.DeepCopy(), client.GracePeriodSeconds(0))
			require.NoError(t, client.IgnoreNotFound(err))
		}
	}
	t.Cleanup(remove)
	s.Must("backup", "create", "chain", "--include-namespaces", shop,
		"--include-namespace-scoped-resources", "pods,services", "--include-cluster-scoped-resources", "validatingwebhookconfigurations", "--selector", "chain="+shop, "--wait")
	s.Must("backup", "create", "other", "--include-namespaces", other, "--wait")
	gone := func() {
		t.Helper()
		remove()
		s.Eventually("the chain is gone", func(ctx context.Context) (bool, error) {
			for _, o := range objects[1:] {
				if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); !apierrors.IsNotFound(err) {
					return false, err
				}
			}
			return true, nil
		})
	}
	gone()

	s.Must("restore", "create", "chain", "--from-backup", "chain")
	s.Eventually("the restore shows until when it waits", func(context.Context) (bool, error) {
		return strings.Contains(s.Must("restore", "describe", "chain"), "all such waits share 5h0m0s"), nil
	})
	s.Must("restore", "create", "other", "--from-backup", "other", "--wait")
	s.AwaitRestore("chain", velerov1.RestorePhaseInProgress)
	s.Must("restore", "cancel", "chain", "--wait")
	gone()
	require.NoError(t, server.Stop())

	s.Serve("--concurrent-restores", "1", "--resource-timeout", "10s")
	s.Must("restore", "create", "again", "--from-backup", "chain")
	r := s.AwaitRestore("again", velerov1.RestorePhasePartiallyFailed)
	require.Equal(t, links, r.Status.Errors, "the pods that no webhook admits")
	found := site.ReadJSON[results.Results](t, s, "restores", "again", "restore-again-results.gz")
	waited, late := 0, 0
	for _, warning := range found.Warnings.Cluster {
		if strings.Contains(warning, "is not ready after 10s of waits") {
			waited++
		}
		if strings.Contains(warning, "others have taken the time for all waits") {
			late++
		}
	}
	require.Equal(t, [2]int{1, links - 1}, [2]int{waited, late}, "%v", found.Warnings.Cluster)
}
