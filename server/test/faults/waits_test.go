package faults_test

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
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptFaults_WaitsAreExplained has restores and backups that wait for parts of the cluster and for the object
// store. Each records the reason, and since when it waits. Waits for volumes, hooks and the queue have tests of their
// own.
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
	s := site.New(t, "cleat.dev/file")
	dir, plugins := t.TempDir(), t.TempDir()
	programs.Copy(t, "server/internal/engine/restore/testdata/waits", filepath.Join(plugins, "waits"))
	config := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "apiVersion: cleat.dev/v1\nplugins: {variables: "+
		"{CLEAT_TEST_DIR: %q}}\n", dir), 0o600))
	server := s.Serve("--config", config, "--plugin-dir", plugins)
	s.Available()
	s.Shop = s.Workload(2)
	require.NoError(t, s.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Shop, Name: "needy", Labels: map[string]string{"version": "2"}, Annotations: map[string]string{
			"needs": "item-a,item-b", "timeout": "1h",
		},
	}}))
	s.WholeBackup("")

	shown := &site.LogBuffer{}
	waiting := exec.CommandContext(t.Context(), site.Program(t), "restore", "create", "slow", "--from-backup", "whole",
		"--namespace-mappings", s.Shop+":"+s.Shop+"-copy",
		"--wait", "--kubeconfig", s.Kubeconfig, "--namespace", s.Namespace)
	waiting.Stderr = shown
	require.NoError(t, waiting.Start())
	what := fmt.Sprintf("configmaps/%s/item-a, configmaps/%s/item-b to be ready before configmaps/%s-copy/needy, for up "+
		"to 1h0m0s: action example.io/waits reports when", s.Shop, s.Shop, s.Shop)
	s.AwaitWait("restore", "slow", what)
	s.Eventually("--wait shows the wait", func(context.Context) (bool, error) {
		return strings.Contains(shown.String(), "restore slow: InProgress, waits for "+what+", since 20"), nil
	})
	server.AwaitLine("waiting", what, "since=20", "restore="+s.Namespace+"/slow")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ready-slow"), nil, 0o600))
	require.NoError(t, waiting.Wait(), shown)
	server.AwaitLine("not waiting any more", what)
	s.RequireNoWait("restore", "slow")
	require.Contains(t, s.Must("restore", "logs", "slow"), what)
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

// waitsForDefinition has a definition that is not served because another one of the same kind exists.
func waitsForDefinition(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	scheme, err := app.Scheme()
	require.NoError(t, err)
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	server := s.Serve()
	s.Available()
	group := s.Namespace + ".example.io"
	wanted, other := definition(group, "widgets"), definition(group, "gadgets")
	require.NoError(t, c.Create(t.Context(), wanted))
	t.Cleanup(func() {
		_ = c.Delete(context.Background(), wanted)
		_ = c.Delete(context.Background(), other)
	})
	s.Eventually("the definition is served", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(wanted), wanted)
		return len(wanted.Status.AcceptedNames.Kind) > 0, err
	})
	s.Must("backup", "create", "b", "--include-resources", "customresourcedefinitions", "--selector", "!none", "--wait")
	require.NoError(t, c.Delete(t.Context(), wanted))
	s.Eventually("the definition is gone", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(wanted), wanted)
		return client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
	})
	require.NoError(t, c.Create(t.Context(), other))
	s.Eventually("the other definition is served", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(other), other)
		return len(other.Status.AcceptedNames.Kind) > 0, err
	})
	s.Must("restore", "create", "r", "--from-backup", "b")
	s.AwaitWait("restore", "r", "customresourcedefinitions.apiextensions.k8s.io/widgets."+group+" to be ready")
	require.Contains(t, s.Must("restore", "describe", "r"), "is already in use")
	server.AwaitLine("waiting", "widgets."+group+" to be ready", "is already in use")
	require.NoError(t, c.Delete(t.Context(), other))
	s.AwaitEndOfRestore("r")
	s.RequireNoWait("restore", "r")
}

func waitsForNamespace(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := s.Serve()
	s.Available()
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	into := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Shop + "-copy"}}
	require.NoError(t, s.Client.Create(t.Context(), into))
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: into.Name, Name: "held",
		Finalizers: []string{"example.io/held"}}}
	require.NoError(t, s.Client.Create(t.Context(), held))
	require.NoError(t, s.Client.Delete(t.Context(), into))
	s.BeginRestore("r")
	what := "the end of namespace " + into.Name + ", which is being deleted"
	s.AwaitWait("restore", "r", what)
	server.AwaitLine("waiting", what, "since=20", "restore="+s.Namespace+"/r")

	// The next server waits again, and records that.
	server.Kill()
	server = s.Serve()
	server.AwaitLine("waiting", what, "restore="+s.Namespace+"/r")
	s.AwaitWait("restore", "r", what)
	require.NoError(t, s.Client.Patch(t.Context(), held, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))))
	s.CheckRestore("r")
	s.RequireNoWait("restore", "r")
}

// waitsForWebhook has a webhook without a service that refuses all creations in the target namespace.
func waitsForWebhook(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	server := s.Serve()
	s.Available()
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	into := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Shop + "-copy",
		Labels: map[string]string{"guarded": s.Namespace}}}
	require.NoError(t, s.Client.Create(t.Context(), into))
	name, nowhere, none := "guard."+s.Namespace+".example.io", "https://127.0.0.1:1/", admissionv1.SideEffectClassNone
	guard := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: name, ClientConfig: admissionv1.WebhookClientConfig{URL: &nowhere}, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       metav1.SetAsLabelSelector(map[string]string{"guarded": s.Namespace}),
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"configmaps"}},
			}},
		}},
	}
	require.NoError(t, s.Client.Create(t.Context(), guard))
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), guard) })
	s.Eventually("the webhook is called", func(ctx context.Context) (bool, error) {
		err := s.Client.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: into.Name, GenerateName: "probe-"}})
		return err != nil && strings.Contains(err.Error(), name), nil
	})
	s.BeginRestore("r")
	server.AwaitLine("waiting", name, "to work", "connection refused", "restore="+s.Namespace+"/r")
	s.AwaitEndOfRestore("r") // it does not wait without a limit
	s.RequireNoWait("restore", "r")
}

func waitsForObjectStore(t *testing.T) {
	t.Parallel()
	s, wire := newWiredSite(t)
	server := s.Serve()
	s.Available()
	s.Shop = s.Workload(2)
	s.WholeBackup("")
	wire.Refuse()
	const what = "the object store of backup storage location default"
	s.BeginRestore("r")
	s.BeginBackup("b")
	s.AwaitWait("restore", "r", what)
	s.AwaitWait("backup", "b", what)
	server.AwaitLine("waiting", what, "restore="+s.Namespace+"/r")
	server.AwaitLine("waiting", what, "backup="+s.Namespace+"/b")
	require.NoError(t, wire.Connect())
	s.CheckRestore("r")
	s.AwaitBackup("b", velerov1.BackupPhaseCompleted)
	s.RequireNoWait("restore", "r")
	s.RequireNoWait("backup", "b")
	s.RequireWhole(s.Backup("b"))
}

// waitsForAPIServer has an API server that does not answer the server, which can then only log the wait.
func waitsForAPIServer(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	notes := s.WatchItems("200ms")
	wire, kubeconfig := wireToAPIServer(t, s.Kubeconfig)
	s.ServerKubeconfig = kubeconfig
	server := s.Serve(append(notes.Args, "--leader-elect-lease-duration", "10m", "--api-outage-timeout", "10m",
		"--restore-workers", "1")...)
	s.Available()
	s.Shop = s.Workload(30)
	s.WholeBackup("")
	s.BeginRestore("r")
	notes.AwaitItems(s, "r", 3)
	wire.Refuse()
	server.AwaitLine("waiting", "the API server to respond", "connection refused", "restore="+s.Namespace+"/r")
	require.NoError(t, wire.Connect())
	s.CheckRestore("r")
}
