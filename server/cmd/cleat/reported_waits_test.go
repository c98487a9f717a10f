package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// TestAcceptFaults_WaitsAreExplained has restores and backups wait for parts of the cluster and for the object store. Each
// says for what, and since when. Waits for volumes, hooks and the queue have tests of their own.
func TestAcceptFaults_WaitsAreExplained(t *testing.T) {
	t.Parallel()
	t.Run("additional items", waitsForAdditionalItems)
	t.Run("definition", waitsForDefinition)
	t.Run("terminating namespace", waitsForNamespace)
	t.Run("webhook", waitsForWebhook)
	t.Run("object store", waitsForObjectStore)
	t.Run("API server", waitsForAPIServer)
}

func waitsForAdditionalItems(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	dir, plugins := t.TempDir(), t.TempDir()
	programs.Copy(t, "server/internal/engine/restore/testdata/waits", filepath.Join(plugins, "waits"))
	config := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "apiVersion: cleat.dev/v1\nplugins: {variables: "+
		"{CLEAT_TEST_DIR: %q}}\n", dir), 0o600))
	server := s.serve("--config", config, "--plugin-dir", plugins)
	s.available()
	s.shop = s.workload(2)
	require.NoError(t, s.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.shop, Name: "needy", Labels: map[string]string{"version": "2"}, Annotations: map[string]string{
			"needs": "item-a,item-b", "timeout": "1h",
		},
	}}))
	s.wholeBackup("")

	shown := &logBuffer{}
	waiting := exec.CommandContext(t.Context(), cleat(t), "restore", "create", "slow", "--from-backup", "whole",
		"--namespace-mappings", s.shop+":"+s.shop+"-copy",
		"--wait", "--kubeconfig", s.kubeconfig, "--namespace", s.namespace)
	waiting.Stderr = shown
	require.NoError(t, waiting.Start())
	what := fmt.Sprintf("configmaps/%s/item-a, configmaps/%s/item-b to be ready before configmaps/%s-copy/needy, for up "+
		"to 1h0m0s: action example.io/waits reports when", s.shop, s.shop, s.shop)
	s.awaitWait("restore", "slow", what)
	s.eventually("--wait shows the wait", func(context.Context) (bool, error) {
		return strings.Contains(shown.String(), "restore slow: InProgress, waits for "+what+", since 20"), nil
	})
	server.awaitLine("waiting", what, "since=20", "restore="+s.namespace+"/slow")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ready-slow"), nil, 0o600))
	require.NoError(t, waiting.Wait(), shown)
	server.awaitLine("not waiting any more", what)
	s.requireNoWait("restore", "slow")
	require.Contains(t, s.must("restore", "logs", "slow"), what)
}

// definition returns a definition of the group of a test.
func definition(group, plural string) *apiextensionsv1.CustomResourceDefinition {
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Kind: "Widget",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: anything,
				},
			}},
		},
	}
}

// waitsForDefinition has another definition of the same kind keep one from being served.
func waitsForDefinition(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	scheme, err := app.Scheme()
	require.NoError(t, err)
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	server := s.serve()
	s.available()
	group := s.namespace + ".example.io"
	wanted, other := definition(group, "widgets"), definition(group, "gadgets")
	require.NoError(t, c.Create(t.Context(), wanted))
	t.Cleanup(func() {
		_ = c.Delete(context.Background(), wanted)
		_ = c.Delete(context.Background(), other)
	})
	s.eventually("the definition is served", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(wanted), wanted)
		return len(wanted.Status.AcceptedNames.Kind) > 0, err
	})
	s.must("backup", "create", "b", "--include-resources", "customresourcedefinitions", "--selector", "!none", "--wait")
	require.NoError(t, c.Delete(t.Context(), wanted))
	s.eventually("the definition is gone", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(wanted), wanted)
		return client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
	})
	require.NoError(t, c.Create(t.Context(), other))
	s.eventually("the other definition is served", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(other), other)
		return len(other.Status.AcceptedNames.Kind) > 0, err
	})
	s.must("restore", "create", "r", "--from-backup", "b")
	s.awaitWait("restore", "r", "customresourcedefinitions.apiextensions.k8s.io/widgets."+group+" to be ready")
	require.Contains(t, s.must("restore", "describe", "r"), "is already in use")
	server.awaitLine("waiting", "widgets."+group+" to be ready", "is already in use")
	require.NoError(t, c.Delete(t.Context(), other))
	s.awaitEndOfRestore("r")
	s.requireNoWait("restore", "r")
}

func waitsForNamespace(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	server := s.serve()
	s.available()
	s.shop = s.workload(2)
	s.wholeBackup("")
	into := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.shop + "-copy"}}
	require.NoError(t, s.client.Create(t.Context(), into))
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: into.Name, Name: "held",
		Finalizers: []string{"example.io/held"}}}
	require.NoError(t, s.client.Create(t.Context(), held))
	require.NoError(t, s.client.Delete(t.Context(), into))
	s.beginRestore("r")
	what := "the end of namespace " + into.Name + ", which is being deleted"
	s.awaitWait("restore", "r", what)
	server.awaitLine("waiting", what, "since=20", "restore="+s.namespace+"/r")

	// The next server waits anew, and says so.
	server.kill()
	server = s.serve()
	server.awaitLine("waiting", what, "restore="+s.namespace+"/r")
	s.awaitWait("restore", "r", what)
	require.NoError(t, s.client.Patch(t.Context(), held, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))))
	s.checkRestore("r")
	s.requireNoWait("restore", "r")
}

// waitsForWebhook has a webhook without a service refuse what is created in the namespace that is restored into.
func waitsForWebhook(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	server := s.serve()
	s.available()
	s.shop = s.workload(2)
	s.wholeBackup("")
	into := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.shop + "-copy",
		Labels: map[string]string{"guarded": s.namespace}}}
	require.NoError(t, s.client.Create(t.Context(), into))
	name, nowhere, none := "guard."+s.namespace+".example.io", "https://127.0.0.1:1/", admissionv1.SideEffectClassNone
	guard := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: name, ClientConfig: admissionv1.WebhookClientConfig{URL: &nowhere}, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       metav1.SetAsLabelSelector(map[string]string{"guarded": s.namespace}),
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"configmaps"}},
			}},
		}},
	}
	require.NoError(t, s.client.Create(t.Context(), guard))
	t.Cleanup(func() { _ = s.client.Delete(context.Background(), guard) })
	s.eventually("the webhook is called", func(ctx context.Context) (bool, error) {
		err := s.client.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: into.Name, GenerateName: "probe-"}})
		return err != nil && strings.Contains(err.Error(), name), nil
	})
	s.beginRestore("r")
	server.awaitLine("waiting", name, "to work", "connection refused", "restore="+s.namespace+"/r")
	s.awaitEndOfRestore("r") // it does not wait for ever
	s.requireNoWait("restore", "r")
}

func waitsForObjectStore(t *testing.T) {
	t.Parallel()
	s, wire := newWiredSite(t)
	server := s.serve()
	s.available()
	s.shop = s.workload(2)
	s.wholeBackup("")
	wire.refuse()
	const what = "the object store of backup storage location default"
	s.beginRestore("r")
	s.beginBackup("b")
	s.awaitWait("restore", "r", what)
	s.awaitWait("backup", "b", what)
	server.awaitLine("waiting", what, "restore="+s.namespace+"/r")
	server.awaitLine("waiting", what, "backup="+s.namespace+"/b")
	require.NoError(t, wire.connect())
	s.checkRestore("r")
	s.awaitBackup("b", velerov1.BackupPhaseCompleted)
	s.requireNoWait("restore", "r")
	s.requireNoWait("backup", "b")
	s.requireWhole(s.backup("b"))
}

// waitsForAPIServer has an API server that does not answer the server. Only its log can say so.
func waitsForAPIServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	notes := s.watchItems("200ms")
	wire, kubeconfig := wireToAPIServer(t, s.kubeconfig)
	s.serverKubeconfig = kubeconfig
	server := s.serve(append(notes.args, "--leader-elect-lease-duration", "10m", "--api-outage-timeout", "10m",
		"--restore-workers", "1")...)
	s.available()
	s.shop = s.workload(30)
	s.wholeBackup("")
	s.beginRestore("r")
	notes.awaitItems(s, "r", 3)
	wire.refuse()
	server.awaitLine("waiting", "the API server to respond", "connection refused", "restore="+s.namespace+"/r")
	require.NoError(t, wire.connect())
	s.checkRestore("r")
}
