package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/test/csidriver"
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

// awaitWait waits until "describe" says that a backup or restore waits for something.
func (s *site) awaitWait(kind, name, what string) {
	s.t.Helper()
	s.eventually(kind+" "+name+" waits for "+what, func(context.Context) (bool, error) {
		described, _, err := s.run(kind, "describe", name)
		if err != nil {
			return false, err // it may not exist yet
		}
		_, waits, _ := strings.Cut(described, "\nWaits for:\n")
		return strings.Contains(waits, what) && strings.Contains(waits, ", since 20"), nil
	})
}

// requireNoWait requires that a backup or restore which has ended does not wait any more.
func (s *site) requireNoWait(kind, name string) {
	s.t.Helper()
	require.NotContains(s.t, s.must(kind, "describe", name), "Waits for:")
	require.NotContains(s.t, s.must(kind, "get", name, "-o", "yaml"), velerov1.WaitsAnnotation)
}

// awaitEndOfRestore waits for the end of a restore.
func (s *site) awaitEndOfRestore(name string) *velerov1.Restore {
	s.t.Helper()
	var r velerov1.Restore
	s.eventually("restore "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, s.key(name), &r)
		return r.Status.Phase.Terminal(), err
	})
	return &r
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

// TestAcceptVolumes_WaitIsExplained restores a claim whose storage class does not exist.
func TestAcceptVolumes_WaitIsExplained(t *testing.T) {
	t.Parallel()
	v := newVolumes(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: v.namespace}, Provisioner: csidriver.Name}
	require.NoError(t, v.client.Create(t.Context(), class))
	t.Cleanup(func() { _ = v.client.Delete(context.Background(), class) })
	require.NoError(t, v.client.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.shop, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: &class.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}))
	v.write(v.shop, "data", "before")
	server := v.serve("--features", "EnableCSI")
	v.available()
	v.begin("b", nil)
	require.Equal(t, velerov1.BackupPhaseCompleted, v.awaitEnd("b").Status.Phase, v.errors("b"))
	require.NoError(t, v.client.Delete(t.Context(), class))
	into := v.shop + "-copy"
	v.must("restore", "create", "r", "--from-backup", "b", "--namespace-mappings", v.shop+":"+into)
	what := "persistent volume claim " + into + "/data to be bound"
	v.awaitWait("restore", "r", what)
	server.awaitLine("waiting", what, "since=20", "restore="+v.namespace+"/r")
	class.ResourceVersion = ""
	require.NoError(t, v.client.Create(t.Context(), class))
	require.Equal(t, velerov1.RestorePhaseCompleted, v.awaitEndOfRestore("r").Status.Phase)
	require.Equal(t, "before", v.content(into, "data"))
	v.requireNoWait("restore", "r")
}

func TestAcceptRestore_WaitForHooksIsExplained(t *testing.T) {
	t.Parallel()
	s := newHookSite(t)
	s.pod("waits", postRestore+"command", shell("echo waited >> did"))
	server := s.serve()
	s.available()
	s.backupPods()
	ns := s.restorePods("r")
	what := "the hooks of pod " + ns + "/waits, for which its containers must be up"
	s.awaitWait("restore", "r", what)
	server.awaitLine("waiting", what, "restore="+s.namespace+"/r")
	s.start(ns, true, "waits")
	s.awaitRestore("r", velerov1.RestorePhaseCompleted)
	s.requireNoWait("restore", "r")
}

func TestAcceptBackup_WaitForHooksIsExplained(t *testing.T) {
	t.Parallel()
	const pre = "pre.hook.backup.velero.io/"
	s := newHookSite(t)
	s.pod("db", pre+"command", shell("while ! test -e go; do sleep 1; done"), pre+"timeout", "1h")
	server := s.serve()
	s.available()
	s.beginBackup("b")
	what := "the pre hooks of pod " + s.shop + "/db"
	s.awaitWait("backup", "b", what)
	server.awaitLine("waiting", what, "backup="+s.namespace+"/b")
	require.NoError(t, os.WriteFile(filepath.Join(s.kubelet.Dir(s.shop, "db"), "go"), nil, 0o600))
	s.awaitBackup("b", velerov1.BackupPhaseCompleted)
	s.requireNoWait("backup", "b")
}

// TestAcceptQueue_WaitIsExplained has a backup wait for one, and then for another. The next server says again for which.
func TestAcceptQueue_WaitIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.inProgress("first", "one")
	s.inProgress("second", "two")
	server := s.serve("--concurrent-backups", "5")
	s.available()
	s.enqueue("b", 1, "one,two")
	wait, err := velerov1.QueueWaitOf(s.backup("b"))
	require.NoError(t, err)
	first, second := wait.Blockers[0], "second"
	if first == second {
		second = "first"
	}
	server.awaitLine("backup waits", "backup="+s.namespace+"/b", "with "+first)
	s.endBackup(first)
	server.awaitLine("backup waits", "backup="+s.namespace+"/b", "with "+second)
	server.kill()
	server = s.serve("--concurrent-backups", "5")
	server.awaitLine("backup waits", "backup="+s.namespace+"/b", "position=1", "with "+second, "since=20")
	s.endBackup(second)
	s.awaitEnd("b")
}

func TestAcceptOperations_TimeoutIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	w := s.work()
	s.serve(w.args...)
	s.available()
	s.beginWork("b", "keyed", 3*time.Second, "length", "1h")
	b := s.awaitBackup("b", velerov1.BackupPhasePartiallyFailed)
	operations := s.operations(b)
	require.Len(t, operations, 1)
	require.Regexp(t, `^timed out after 3s; it had done \d+ of 1000 bytes, `, operations[0].Error)
	require.NotContains(t, operations[0].Error, operations[0].ID)
	require.Equal(t, 1, strings.Count(s.messages("b"), operations[0].ID), "the result of the backup names it once")
	require.Regexp(t, `timed out after 3s; it had done \d+ of 1000 bytes, and nothing new for \d+s`,
		s.must("backup", "describe", "b", "--details"))
}

// TestAcceptManifest_DryRunsOnScreen makes dry runs of a backup and a restore, which are not to look like failures.
func TestAcceptManifest_DryRunsOnScreen(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.serve()
	s.available()
	s.shop = s.workload(2)
	s.wholeBackup("")
	dryRun := func(args ...string) string {
		out, errs, err := s.run(append(args, "--dry-run")...)
		require.NoError(t, err, errs)
		return out + errs
	}
	for kind, screen := range map[string]string{
		"backup":  dryRun("backup", "create", "b", "--include-namespaces", s.shop),
		"restore": dryRun("restore", "create", "b", "--from-backup", "whole"),
	} {
		require.Contains(t, screen, "dry run b-dry-run: DryRunCompleted\n")
		screen += s.must(kind, "get", "b-dry-run") + s.must(kind, "describe", "b-dry-run")
		require.NotContains(t, screen, "FailedValidation")
		require.NotContains(t, screen, "Validation errors")
	}
	_, errs, err := s.run("backup", "create", "wrong", "--storage-location", "none", "--dry-run")
	require.Error(t, err)
	require.Contains(t, errs, "dry run wrong-dry-run: DryRunFailed\n")
}
