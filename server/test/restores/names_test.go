package restores_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// mugs are custom resources whose definition is installed and removed. Their names are unique, because tests share the
// cluster.
type mugs struct {
	site                    *site.Site
	plural, singular, short string
}

const mugsGroup = "kitchen.example.io"

// newKitchen returns a site on a control plane of its own: if a definition is removed while another test backs up
// everything, the backup has a warning. Its server discovers resources only for actions of its test.
func newKitchen(t *testing.T) *site.Site {
	t.Helper()
	s := site.NewIn(t, kitchens.Installed(t), "cleat.dev/file")
	require.NoError(t, apiextensionsv1.AddToScheme(s.Client.Scheme()))
	s.Serve("--features", "EnableAPIGroupVersions")
	s.Available()
	return s
}

func newMugs(s *site.Site) *mugs {
	own := strings.TrimPrefix(s.Namespace, "cleat-")
	return &mugs{site: s, plural: "mugs" + own, singular: "mug" + own, short: "mg" + own}
}

// install installs the definition with the given versions, the last of which is stored, and waits until they are
// served.
func (m *mugs) install(versions ...string) {
	m.site.T.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: m.plural + "." + mugsGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: mugsGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: m.plural, Singular: m.singular,
				ShortNames: []string{m.short}, Kind: "Mug" + m.short},
		},
	}
	for i, version := range versions {
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == len(versions)-1,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		})
	}
	require.NoError(m.site.T, m.site.Client.Create(m.site.T.Context(), definition))
	for _, version := range versions {
		m.site.Eventually("the version is served", func(ctx context.Context) (bool, error) {
			err := m.site.Client.List(ctx, m.list(version))
			return err == nil, err
		})
	}
}

func (m *mugs) definition() client.ObjectKey {
	return client.ObjectKey{Name: m.plural + "." + mugsGroup}
}

// uninstall deletes the definition, and the objects with it.
func (m *mugs) uninstall() {
	m.site.T.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: m.definition().Name}}
	require.NoError(m.site.T, m.site.Client.Delete(m.site.T.Context(), definition))
	m.site.Eventually("the definition is deleted", func(ctx context.Context) (bool, error) {
		err := m.site.Client.Get(ctx, m.definition(), definition)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// hide makes the API server stop serving a version.
func (m *mugs) hide(version string) {
	m.site.T.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(m.site.T, m.site.Client.Get(m.site.T.Context(), m.definition(), &definition))
	for i := range definition.Spec.Versions {
		definition.Spec.Versions[i].Served = definition.Spec.Versions[i].Served && definition.Spec.Versions[i].Name != version
	}
	require.NoError(m.site.T, m.site.Client.Update(m.site.T.Context(), &definition))
	m.site.Eventually("the version is not served", func(ctx context.Context) (bool, error) {
		return m.site.Client.List(ctx, m.list(version)) != nil, nil
	})
}

func (m *mugs) kind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: mugsGroup, Version: version, Kind: "Mug" + m.short}
}

func (m *mugs) list(version string) *unstructured.UnstructuredList {
	list := new(unstructured.UnstructuredList)
	list.SetGroupVersionKind(m.kind(version))
	return list
}

func (m *mugs) create(version, namespace string) {
	m.site.T.Helper()
	mug := new(unstructured.Unstructured)
	mug.SetGroupVersionKind(m.kind(version))
	mug.SetNamespace(namespace)
	mug.SetName("one")
	require.NoError(m.site.T, m.site.Client.Create(m.site.T.Context(), mug))
}

// in returns the number of objects in a namespace.
func (m *mugs) in(version, namespace string) int {
	m.site.T.Helper()
	list := m.list(version)
	require.NoError(m.site.T, m.site.Client.List(m.site.T.Context(), list, client.InNamespace(namespace)))
	return len(list.Items)
}

// TestAcceptRestore_NamesWithoutEffect has names, versions, selectors and mappings in user input that would have no
// effect without a report.
func TestAcceptRestore_NamesWithoutEffect(t *testing.T) {
	t.Parallel()
	all := site.New(t, "cleat.dev/file")
	all.Serve()
	all.Available()
	shop := all.Workload(2)
	all.Must("backup", "create", "shop", "--include-namespaces", shop, "--wait")

	t.Run("a modifier that adds the first label", func(t *testing.T) {
		t.Parallel()
		s := all.In(t)
		for name, value := range map[string]string{
			"add":  "patches: [{operation: add, path: /metadata/labels/three, value: \"3\"}]",
			"idle": "mergePatches: [{patchData: '{metadata: {labels: {three: \"3\"}}}'}]",
			"move": "mergePatches: [{patchData: '{metadata: {namespace: elsewhere}}'}]",
		} {
			resource := map[string]string{"add": "configmaps", "idle": "configmap", "move": "configmaps"}[name]
			document := "version: v1\nresourceModifierRules: [{conditions: {groupResource: " + resource +
				", resourceNameRegex: ^item-a$}, " + value + "}]"
			require.NoError(t, s.Client.Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
					Data: map[string]string{"rules": document}}))
		}
		const right = `use mergePatches: [{patchData: '{"metadata":{"labels":{"three":"3"}}}'}] instead`
		restore := []string{"restore", "create", "label", "--from-backup", "shop", "--namespace-mappings", shop + ":" + shop +
			"-label", "--resource-modifier-configmap", "add"}
		out, _, err := s.Run(append(restore, "--dry-run")...)
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, out, right)
		_, _, err = s.Run(append(restore, "--wait")...)
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, s.Must("restore", "describe", "label"), right)

		_, _, err = s.Run("restore", "create", "move", "--from-backup", "shop", "--namespace-mappings", shop+":"+shop+"-move",
			"--resource-modifier-configmap", "move", "--wait")
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, s.Must("restore", "describe", "move"), `resourceModifierRules[0]: it changes metadata.namespace `+
			`from "`+shop+`" to "elsewhere", and a modifier cannot move an object; use spec.namespaceMapping`)

		const idle = `resourceModifierRules[0] applies to no object that is restored`
		restore = []string{"restore", "create", "idle", "--from-backup", "shop", "--namespace-mappings", shop + ":" + shop +
			"-idle", "--resource-modifier-configmap", "idle"}
		require.Contains(t, s.Must(append(restore, "--dry-run")...), idle)
		s.Must(append(restore, "--wait")...)
		require.Contains(t, s.Must("restore", "describe", "idle"), idle)
	})

	t.Run("a resource by its singular and its short name, right after its definition was installed", func(t *testing.T) {
		t.Parallel()
		s := newKitchen(t)
		mugs := newMugs(s)
		mugs.install("v1")
		from := s.Workload(1)
		mugs.create("v1", from)
		s.Must("backup", "create", "mugs", "--include-namespaces", from, "--wait")
		mugs.uninstall()
		s.Must("backup", "create", "look", "--include-namespaces", from, "--wait") // discovers the served resources
		mugs.install("v1")
		defer mugs.uninstall()

		without, with := from+"-without", from+"-with"
		s.Must("restore", "create", "without", "--from-backup", "mugs", "--namespace-mappings", from+":"+without,
			"--exclude-resources", mugs.singular, "--wait")
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: without, Name: "item-a"},
			&corev1.ConfigMap{}))
		require.Zero(t, mugs.in("v1", without))
		s.Must("restore", "create", "with", "--from-backup", "mugs", "--namespace-mappings", from+":"+with,
			"--include-resources", mugs.short, "--wait")
		require.Equal(t, 1, mugs.in("v1", with))
	})

	t.Run("a backup of a definition that was installed a moment ago", func(t *testing.T) {
		t.Parallel()
		s := newKitchen(t)
		from := s.Workload(1)
		s.Must("backup", "create", "before", "--include-namespaces", from, "--wait") // discovers the served resources
		mugs := newMugs(s)
		mugs.install("v1")
		defer mugs.uninstall()
		mugs.create("v1", from)
		s.Must("backup", "create", "fresh", "--include-namespaces", from, "--include-resources", mugs.short, "--wait")
		require.Equal(t, 2, s.Backup("fresh").Status.Progress.ItemsBackedUp, "the object and its definition")
		require.Zero(t, s.Backup("fresh").Status.Warnings, s.ResultsOf("fresh"))
	})

	t.Run("another version that is served by now", func(t *testing.T) {
		t.Parallel()
		s := newKitchen(t)
		mugs := newMugs(s)
		mugs.install("v1alpha1", "v1beta1")
		defer mugs.uninstall()
		from := s.Workload(0)
		mugs.create("v1beta1", from)
		s.Must("backup", "create", "versions", "--include-namespaces", from, "--wait")
		// It discovers the served resources.
		s.Must("restore", "create", "beta", "--from-backup", "versions", "--namespace-mappings", from+":"+from+"-beta",
			"--wait")
		require.Equal(t, 1, mugs.in("v1beta1", from+"-beta"))
		mugs.hide("v1beta1")
		s.Must("restore", "create", "alpha", "--from-backup", "versions", "--namespace-mappings", from+":"+from+"-alpha",
			"--wait")
		require.Equal(t, 1, mugs.in("v1alpha1", from+"-alpha"))
	})

	for name, tt := range map[string]struct{ flags, says string }{
		"an included resource": {"--include-resources configmapz",
			"spec.includedResources: configmapz is a resource neither of the cluster nor of the backup"},
		"a pattern of resources": {"--include-resources *.nowhere.example",
			"spec.includedResources: *.nowhere.example is a resource neither"},
		"a resource without items": {"--include-resources cm,roles", "spec.includedResources: the backup contains no roles"},
		"an excluded resource": {"--exclude-resources configmapz",
			"spec.excludedResources: configmapz is a resource neither"},
		"a resource with status": {"--status-include-resources widgetz",
			"spec.restoreStatus.includedResources: widgetz is a resource neither"},
		"an included namespace": {"--include-namespaces nowhere",
			"namespace nowhere of includedNamespaces is not in the backup"},
		"an excluded namespace": {"--exclude-namespaces nowhere",
			"spec.excludedNamespaces: nowhere matches no namespace of the backup"},
		"a mapped namespace": {"--namespace-mappings nowhere:there",
			"spec.namespaceMapping: namespace nowhere is not in the backup, so nothing is restored into there in its place"},
		"a selector": {"--selector app=none",
			`label selector "app=none" matches no object that the other filters of the restore include`},
		"one of several selectors": {"--or-selector app=none", `label selector "app=none" matches no object`},
	} {
		t.Run("a name of a restore that nobody knows: "+name, func(t *testing.T) {
			t.Parallel()
			s := all.In(t)
			restore := strings.NewReplacer(" ", "-", ":", "").Replace(name)
			args := append([]string{"restore", "create", restore, "--from-backup", "shop"}, strings.Fields(tt.flags)...)
			require.Contains(t, s.Must(append(args, "--dry-run")...), tt.says)
			require.Contains(t, s.Must(append(args, "--dry-run", "-o", "json")...), strings.ReplaceAll(tt.says, `"`, `\"`))
			s.Must(append(args, "--wait")...)
			require.Contains(t, s.Must("restore", "describe", restore), tt.says)
		})
	}

	for name, tt := range map[string]struct {
		change func(*velerov1.BackupSpec)
		says   string
	}{
		"an included resource": {func(b *velerov1.BackupSpec) { b.IncludedResources = []string{"cm", "configmapz"} },
			"spec.includedResources: configmapz is not a resource of this cluster"},
		"a pattern of resources": {func(b *velerov1.BackupSpec) { b.ExcludedResources = []string{"*.nowhere.example"} },
			"spec.excludedResources: *.nowhere.example is not a resource of this cluster"},
		"an excluded namespace": {func(b *velerov1.BackupSpec) { b.ExcludedNamespaces = []string{"nowhere"} },
			"spec.excludedNamespaces: nowhere matches no namespace of the cluster"},
		"a pattern of namespaces": {func(b *velerov1.BackupSpec) {
			b.IncludedNamespaces = append(b.IncludedNamespaces, "nowhere-*")
		},
			"spec.includedNamespaces: nowhere-* matches no namespace of the cluster"},
		"a selector": {func(b *velerov1.BackupSpec) {
			b.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}
		}, `label selector "app=none" matches no object that the other filters of the backup include`},
		"an ordered resource that is left out": {func(b *velerov1.BackupSpec) {
			b.ExcludedResources, b.OrderedResources = []string{"secrets"}, map[string]string{"secret": shop + "/x"}
		}, "spec.orderedResources: secret has no effect: the filters of the backup do not include the resource"},
		"an ordered resource by a short name": {func(b *velerov1.BackupSpec) { b.OrderedResources = map[string]string{"cm": shop + "/none"} }, "spec.orderedResources: object does not exist"},
		"a hook of no pod": {func(b *velerov1.BackupSpec) {
			b.Hooks.Resources = []velerov1.BackupResourceHookSpec{
				{Name: "freeze", PreHooks: []velerov1.BackupResourceHook{{Exec: &velerov1.ExecHook{Command: []string{"true"}}}}},
			}
		}, "spec.hooks: hook freeze applies to no pod of the backup"},
		"a namespace of a hook": {func(b *velerov1.BackupSpec) {
			b.Hooks.Resources = []velerov1.BackupResourceHookSpec{{Name: "freeze", IncludedNamespaces: []string{"nowhere"}}}
		}, "spec.hooks: hook freeze: nowhere matches no namespace of the cluster"},
	} {
		t.Run("a name of a backup that nobody knows: "+name, func(t *testing.T) {
			t.Parallel()
			s := all.In(t)
			b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "unknown-" +
				strings.ReplaceAll(name, " ", "-")}}
			b.Spec.IncludedNamespaces = []string{shop}
			tt.change(&b.Spec)
			require.NoError(t, s.Client.Create(t.Context(), b))
			s.AwaitBackup(b.Name, velerov1.BackupPhaseCompleted)
			require.Contains(t, s.ResultsOf(b.Name), tt.says)
		})
	}

	t.Run("a selector that would be cut", func(t *testing.T) {
		t.Parallel()
		s := all.In(t)
		for _, kind := range []string{"backup create cut", "schedule create cut --schedule @daily",
			"restore create cut --from-backup shop"} {
			for _, flags := range []string{"--selector app=web,app=nginx", "--selector app=web --selector app=nginx",
				"--or-selector app=web --or-selector app=nginx"} {
				_, errs, err := s.Run(strings.Fields(kind + " " + flags)...)
				require.ErrorContains(t, err, "exit status 1")
				require.Contains(t, errs, "--or-selector", "%s %s", kind, flags)
				require.Contains(t, errs, "app in (web,nginx)", "%s %s", kind, flags)
			}
		}
		_, errs, err := s.Run("restore", "create", "cut", "--from-backup", "shop", "--namespace-mappings", shop+":a,"+shop+
			":b")
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, errs, shop+" is mapped to a and to b, want one of them")
		_, errs, err = s.Run("backup", "delete", "--selector", "a=b", "--selector", "a=c", "--confirm")
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, errs, "app in (web,nginx)")
		require.Contains(t, s.Must("backup", "create", "both", "--selector", "app in (web,nginx)", "-o", "yaml"), "- nginx")
		require.Contains(t, s.Must("backup", "create", "both", "--or-selector", "app=web or app=nginx", "-o", "yaml"),
			"app: nginx")
	})

	t.Run("one bad backup and the simulation of the queue", func(t *testing.T) {
		t.Parallel()
		s := all.In(t)
		bad := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "bad"}}
		bad.Spec.IncludedNamespaces = []string{"bad["}
		require.NoError(t, s.Client.Create(t.Context(), bad))
		s.AwaitBackup("bad", velerov1.BackupPhaseFailedValidation)
		file := filepath.Join(t.TempDir(), "backups.yaml")
		simulate := func(more string) (out, errs string) {
			listed := s.Must("backup", "get", "bad", "shop", "-o", "yaml")
			require.NoError(t, os.WriteFile(file, []byte(listed+more), 0o600))
			out, errs, err := s.Run("queue", "simulate", "-f", file)
			require.NoError(t, err, errs)
			return out, errs
		}
		_, errs := simulate("")
		require.Empty(t, errs)
		const waiting = "---\n{apiVersion: velero.io/v1, kind: Backup, metadata: {name: %s}, spec: {includedNamespaces: " +
			"[%q]}, status: {phase: Queued}}\n"
		out, errs := simulate(fmt.Sprintf(waiting, "unreadable", "bad[") + fmt.Sprintf(waiting, "good", "shop"))
		require.Contains(t, errs, "Left out: "+file)
		require.Contains(t, errs, "spec.includedNamespaces: ")
		require.Contains(t, out, "They started in this order: good")
	})

	t.Run("one backup that cannot be read, beside all that lists backups", func(t *testing.T) {
		t.Parallel()
		s := site.New(t, "cleat.dev/file")
		unreadable := func(name string) {
			b := new(unstructured.Unstructured)
			b.SetGroupVersionKind(velerov1.SchemeGroupVersion.WithKind("Backup"))
			b.SetNamespace(s.Namespace)
			b.SetName(name)
			b.Object["spec"] = map[string]any{"ttl": "9999999h"} // longer than a duration can be
			require.NoError(t, s.Client.Create(t.Context(), b))
		}
		unreadable("from-before")
		server := s.Serve()
		s.Available()
		s.Must("backup", "create", "one", "--include-namespaces", shop, "--wait")
		unreadable("while-it-runs")
		s.Must("backup", "create", "two", "--include-namespaces", shop, "--wait")
		s.Must("restore", "create", "three", "--from-backup", "two", "--namespace-mappings", shop+":"+shop+"-readable",
			"--wait")
		s.Must("backup", "delete", "one", "--confirm", "--wait")
		out, errs, err := s.Run("backup", "get")
		require.NoError(t, err)
		require.Contains(t, out, "two ")
		require.NotContains(t, out, "from-before")
		require.Contains(t, errs, "Left out: Backup "+s.Namespace+"/from-before cannot be read: ")
		require.Contains(t, errs, "9999999h")
		s.Must("queue")
		require.Contains(t, server.Log.String(), "Backup "+s.Namespace+"/while-it-runs cannot be read: ")
	})
}
