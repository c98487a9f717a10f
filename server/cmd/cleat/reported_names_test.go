package main_test

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
)

// mugs are custom resources whose definition comes and goes. Their names are unique, because tests share the cluster.
type mugs struct {
	site                    *site
	plural, singular, short string
}

const mugsGroup = "kitchen.example.io"

// newKitchen returns a site on a control plane of its own: a definition that goes away while another test backs up
// everything is a warning there. Its server looks at the served resources only for what its test does.
func newKitchen(t *testing.T) *site {
	t.Helper()
	s := newSiteIn(t, kitchens.get(t), "cleat.dev/file")
	require.NoError(t, apiextensionsv1.AddToScheme(s.client.Scheme()))
	s.serve("--features", "EnableAPIGroupVersions")
	s.available()
	return s
}

func (s *site) mugs() *mugs {
	own := strings.TrimPrefix(s.namespace, "cleat-")
	return &mugs{site: s, plural: "mugs" + own, singular: "mug" + own, short: "mg" + own}
}

// install installs the definition with the given versions, of which the last one is stored, and waits until they are
// served.
func (m *mugs) install(versions ...string) {
	m.site.t.Helper()
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
	require.NoError(m.site.t, m.site.client.Create(m.site.t.Context(), definition))
	for _, version := range versions {
		m.site.eventually("the version is served", func(ctx context.Context) (bool, error) {
			err := m.site.client.List(ctx, m.list(version))
			return err == nil, err
		})
	}
}

func (m *mugs) definition() client.ObjectKey {
	return client.ObjectKey{Name: m.plural + "." + mugsGroup}
}

// uninstall deletes the definition, and the objects with it.
func (m *mugs) uninstall() {
	m.site.t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: m.definition().Name}}
	require.NoError(m.site.t, m.site.client.Delete(m.site.t.Context(), definition))
	m.site.eventually("the definition is deleted", func(ctx context.Context) (bool, error) {
		err := m.site.client.Get(ctx, m.definition(), definition)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// hide makes the API server serve a version no longer.
func (m *mugs) hide(version string) {
	m.site.t.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(m.site.t, m.site.client.Get(m.site.t.Context(), m.definition(), &definition))
	for i := range definition.Spec.Versions {
		definition.Spec.Versions[i].Served = definition.Spec.Versions[i].Served && definition.Spec.Versions[i].Name != version
	}
	require.NoError(m.site.t, m.site.client.Update(m.site.t.Context(), &definition))
	m.site.eventually("the version is not served", func(ctx context.Context) (bool, error) {
		return m.site.client.List(ctx, m.list(version)) != nil, nil
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
	m.site.t.Helper()
	mug := new(unstructured.Unstructured)
	mug.SetGroupVersionKind(m.kind(version))
	mug.SetNamespace(namespace)
	mug.SetName("one")
	require.NoError(m.site.t, m.site.client.Create(m.site.t.Context(), mug))
}

// in returns the number of objects in a namespace.
func (m *mugs) in(version, namespace string) int {
	m.site.t.Helper()
	list := m.list(version)
	require.NoError(m.site.t, m.site.client.List(m.site.t.Context(), list, client.InNamespace(namespace)))
	return len(list.Items)
}

// TestAcceptRestore_NamesWithoutEffect has names, versions, selectors and mappings that people wrote and that had no
// effect, without a word.
func TestAcceptRestore_NamesWithoutEffect(t *testing.T) {
	t.Parallel()
	all := newSite(t, "cleat.dev/file")
	all.serve()
	all.available()
	shop := all.workload(2)
	all.must("backup", "create", "shop", "--include-namespaces", shop, "--wait")

	t.Run("a modifier that adds the first label", func(t *testing.T) {
		t.Parallel()
		s := all.in(t)
		for name, value := range map[string]string{
			"add":  "patches: [{operation: add, path: /metadata/labels/three, value: \"3\"}]",
			"idle": "mergePatches: [{patchData: '{metadata: {labels: {three: \"3\"}}}'}]",
		} {
			resource := map[string]string{"add": "configmaps", "idle": "configmap"}[name]
			document := "version: v1\nresourceModifierRules: [{conditions: {groupResource: " + resource +
				", resourceNameRegex: ^item-a$}, " + value + "}]"
			require.NoError(t, s.client.Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
					Data: map[string]string{"rules": document}}))
		}
		const right = `use mergePatches: [{patchData: '{"metadata":{"labels":{"three":"3"}}}'}] instead`
		restore := []string{"restore", "create", "label", "--from-backup", "shop", "--namespace-mappings", shop + ":" + shop +
			"-label", "--resource-modifier-configmap", "add"}
		out, _, err := s.run(append(restore, "--dry-run")...)
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, out, right)
		_, _, err = s.run(append(restore, "--wait")...)
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, s.must("restore", "describe", "label"), right)

		const idle = `resourceModifierRules[0] applies to no object that is restored`
		restore = []string{"restore", "create", "idle", "--from-backup", "shop", "--namespace-mappings", shop + ":" + shop +
			"-idle", "--resource-modifier-configmap", "idle"}
		require.Contains(t, s.must(append(restore, "--dry-run")...), idle)
		s.must(append(restore, "--wait")...)
		require.Contains(t, s.must("restore", "describe", "idle"), idle)
	})

	t.Run("a resource by its singular and its short name, right after its definition was installed", func(t *testing.T) {
		t.Parallel()
		s := newKitchen(t)
		mugs := s.mugs()
		mugs.install("v1")
		from := s.workload(1)
		mugs.create("v1", from)
		s.must("backup", "create", "mugs", "--include-namespaces", from, "--wait")
		mugs.uninstall()
		s.must("backup", "create", "look", "--include-namespaces", from, "--wait") // looks at what is served
		mugs.install("v1")
		defer mugs.uninstall()

		without, with := from+"-without", from+"-with"
		s.must("restore", "create", "without", "--from-backup", "mugs", "--namespace-mappings", from+":"+without,
			"--exclude-resources", mugs.singular, "--wait")
		require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: without, Name: "item-a"},
			&corev1.ConfigMap{}))
		require.Zero(t, mugs.in("v1", without))
		s.must("restore", "create", "with", "--from-backup", "mugs", "--namespace-mappings", from+":"+with,
			"--include-resources", mugs.short, "--wait")
		require.Equal(t, 1, mugs.in("v1", with))
	})

	t.Run("a backup of a definition that was installed a moment ago", func(t *testing.T) {
		t.Parallel()
		s := newKitchen(t)
		from := s.workload(1)
		s.must("backup", "create", "before", "--include-namespaces", from, "--wait") // looks at what is served
		mugs := s.mugs()
		mugs.install("v1")
		defer mugs.uninstall()
		mugs.create("v1", from)
		s.must("backup", "create", "fresh", "--include-namespaces", from, "--include-resources", mugs.short, "--wait")
		require.Equal(t, 2, s.backup("fresh").Status.Progress.ItemsBackedUp, "the object and its definition")
		require.Zero(t, s.backup("fresh").Status.Warnings, s.resultsOf("fresh"))
	})

	t.Run("another version that is served by now", func(t *testing.T) {
		t.Parallel()
		s := newKitchen(t)
		mugs := s.mugs()
		mugs.install("v1alpha1", "v1beta1")
		defer mugs.uninstall()
		from := s.workload(0)
		mugs.create("v1beta1", from)
		s.must("backup", "create", "versions", "--include-namespaces", from, "--wait")
		// looks at what is served
		s.must("restore", "create", "beta", "--from-backup", "versions", "--namespace-mappings", from+":"+from+"-beta",
			"--wait")
		require.Equal(t, 1, mugs.in("v1beta1", from+"-beta"))
		mugs.hide("v1beta1")
		s.must("restore", "create", "alpha", "--from-backup", "versions", "--namespace-mappings", from+":"+from+"-alpha",
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
			s := all.in(t)
			restore := strings.NewReplacer(" ", "-", ":", "").Replace(name)
			args := append([]string{"restore", "create", restore, "--from-backup", "shop"}, strings.Fields(tt.flags)...)
			require.Contains(t, s.must(append(args, "--dry-run")...), tt.says)
			require.Contains(t, s.must(append(args, "--dry-run", "-o", "json")...), strings.ReplaceAll(tt.says, `"`, `\"`))
			s.must(append(args, "--wait")...)
			require.Contains(t, s.must("restore", "describe", restore), tt.says)
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
			b.IncludedNamespaces = append(b.IncludedNamespaces,
				"nowhere-*")
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
			s := all.in(t)
			b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "unknown-" +
				strings.ReplaceAll(name, " ", "-")}}
			b.Spec.IncludedNamespaces = []string{shop}
			tt.change(&b.Spec)
			require.NoError(t, s.client.Create(t.Context(), b))
			s.awaitBackup(b.Name, velerov1.BackupPhaseCompleted)
			require.Contains(t, s.resultsOf(b.Name), tt.says)
		})
	}

	t.Run("a selector that would be cut", func(t *testing.T) {
		t.Parallel()
		s := all.in(t)
		for _, kind := range []string{"backup create cut", "schedule create cut --schedule @daily",
			"restore create cut --from-backup shop"} {
			for _, flags := range []string{"--selector app=web,app=nginx", "--selector app=web --selector app=nginx",
				"--or-selector app=web --or-selector app=nginx"} {
				_, errs, err := s.run(strings.Fields(kind + " " + flags)...)
				require.ErrorContains(t, err, "exit status 1")
				require.Contains(t, errs, "--or-selector", "%s %s", kind, flags)
				require.Contains(t, errs, "app in (web,nginx)", "%s %s", kind, flags)
			}
		}
		_, errs, err := s.run("restore", "create", "cut", "--from-backup", "shop", "--namespace-mappings", shop+":a,"+shop+
			":b")
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, errs, shop+" is mapped to a and to b, want one of them")
		_, errs, err = s.run("backup", "delete", "--selector", "a=b", "--selector", "a=c", "--confirm")
		require.ErrorContains(t, err, "exit status 1")
		require.Contains(t, errs, "app in (web,nginx)")
		require.Contains(t, s.must("backup", "create", "both", "--selector", "app in (web,nginx)", "-o", "yaml"), "- nginx")
		require.Contains(t, s.must("backup", "create", "both", "--or-selector", "app=web or app=nginx", "-o", "yaml"),
			"app: nginx")
	})

	t.Run("one bad backup and the simulation of the queue", func(t *testing.T) {
		t.Parallel()
		s := all.in(t)
		bad := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "bad"}}
		bad.Spec.IncludedNamespaces = []string{"bad["}
		require.NoError(t, s.client.Create(t.Context(), bad))
		s.awaitBackup("bad", velerov1.BackupPhaseFailedValidation)
		file := filepath.Join(t.TempDir(), "backups.yaml")
		simulate := func(more string) (out, errs string) {
			listed := s.must("backup", "get", "bad", "shop", "-o", "yaml")
			require.NoError(t, os.WriteFile(file, []byte(listed+more), 0o600))
			out, errs, err := s.run("queue", "simulate", "-f", file)
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
		s := newSite(t, "cleat.dev/file")
		unreadable := func(name string) {
			b := new(unstructured.Unstructured)
			b.SetGroupVersionKind(velerov1.SchemeGroupVersion.WithKind("Backup"))
			b.SetNamespace(s.namespace)
			b.SetName(name)
			b.Object["spec"] = map[string]any{"ttl": "9999999h"} // longer than a duration can be
			require.NoError(t, s.client.Create(t.Context(), b))
		}
		unreadable("from-before")
		server := s.serve()
		s.available()
		s.must("backup", "create", "one", "--include-namespaces", shop, "--wait")
		unreadable("while-it-runs")
		s.must("backup", "create", "two", "--include-namespaces", shop, "--wait")
		s.must("restore", "create", "three", "--from-backup", "two", "--namespace-mappings", shop+":"+shop+"-readable",
			"--wait")
		s.must("backup", "delete", "one", "--confirm", "--wait")
		out, errs, err := s.run("backup", "get")
		require.NoError(t, err)
		require.Contains(t, out, "two ")
		require.NotContains(t, out, "from-before")
		require.Contains(t, errs, "Left out: Backup "+s.namespace+"/from-before cannot be read: ")
		require.Contains(t, errs, "9999999h")
		s.must("queue")
		require.Contains(t, server.log.String(), "Backup "+s.namespace+"/while-it-runs cannot be read: ")
	})
}
