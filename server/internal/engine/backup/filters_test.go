package backup_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
)

func discard() hclog.Logger { return hclog.NewNullLogger() }

// set is a set of objects of the fixture. The sets that tests expect follow from the table of the fixture and the
// documentation of Velero.
type set []fixtureObject

func (s set) where(keep func(fixtureObject) bool) set {
	return slices.DeleteFunc(slices.Clone(s), func(o fixtureObject) bool { return !keep(o) })
}

func (s set) in(namespaces ...string) set {
	return s.where(func(o fixtureObject) bool { return slices.Contains(namespaces, o.namespace) })
}

// clusterScoped returns the cluster-scoped objects without the namespaces.
func (s set) clusterScoped() set {
	return s.where(func(o fixtureObject) bool { return o.namespace == "" && o.resource != "namespaces" })
}

func (s set) namespaced() set {
	return s.where(func(o fixtureObject) bool { return o.namespace != "" })
}

func (s set) namespaces(names ...string) set {
	return s.where(func(o fixtureObject) bool {
		return o.resource == "namespaces" && (len(names) == 0 || slices.Contains(names, o.name))
	})
}

func (s set) kinds(kinds ...string) set {
	return s.where(func(o fixtureObject) bool { return slices.Contains(kinds, o.kind) })
}

func (s set) labelled(key string, values ...string) set {
	return s.where(func(o fixtureObject) bool { return slices.Contains(values, o.labels[key]) })
}

func (s set) named(names ...string) set {
	return s.where(func(o fixtureObject) bool { return slices.Contains(names, o.name) })
}

func (s set) without(others ...set) set {
	return s.where(func(o fixtureObject) bool {
		return !slices.ContainsFunc(slices.Concat(others...), func(x fixtureObject) bool { return x.id() == o.id() })
	})
}

func (s set) and(others ...set) set { return slices.Concat(append([]set{s}, others...)...) }

func (s set) ids() []string {
	var ids []string
	for _, o := range s {
		ids = append(ids, o.id())
	}
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

// everything returns the objects of a backup without filters: all except those that are labelled for exclusion, or in
// such a namespace.
func everything() set {
	all := set(fixture())
	return all.without(all.labelled("velero.io/exclude-from-backup", "true"), all.in("hidden"))
}

type spec = velerov1.BackupSpec

func selector(text string) *metav1.LabelSelector {
	s, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		panic(err)
	}
	return s
}

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

func TestAcceptBackup_Filters(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	all := everything()
	widgetCRD, gadgetCRD := all.named("widgets.example.com"), all.named("gadgets.example.com")
	// namespace returns namespaces and their objects.
	namespace := func(names ...string) set { return all.in(names...).and(all.namespaces(names...)) }
	shopProd := namespace("shop-prod").and(widgetCRD) // a custom resource brings its definition
	pv := id("", "persistentvolumes", "", "fixture-pv")
	must := map[string]string{"backup.velero.io/must-include-additional-items": "true"}

	for name, row := range map[string]struct {
		spec     spec
		action   *testAction
		want     set
		errors   []string // parts of the expected errors, in any order
		warnings []string
	}{
		// Namespaces.
		"no filter includes all objects": {want: all},
		"star is all namespaces":         {spec: spec{IncludedNamespaces: []string{"*"}}, want: all},
		"one namespace and its objects":  {spec: spec{IncludedNamespaces: []string{"shop-prod"}}, want: shopProd},
		"two namespaces": {spec: spec{IncludedNamespaces: []string{"bank1", "bank2"}},
			want: namespace("bank1", "bank2")},
		"a namespace that holds nothing": {spec: spec{IncludedNamespaces: []string{"empty"}}, want: namespace("empty")},
		"star in a pattern matches any characters": {spec: spec{IncludedNamespaces: []string{"bank1*"}},
			want: namespace("bank1", "bank10")},
		"star at the front of a pattern": {spec: spec{IncludedNamespaces: []string{"*-prod"}},
			want: namespace("shop-prod", "bank-prod").and(widgetCRD)},
		"question mark matches one character": {spec: spec{IncludedNamespaces: []string{"bank?"}},
			want: namespace("bank1", "bank2")},
		"brackets match one of some characters": {spec: spec{IncludedNamespaces: []string{"bank[23]"}},
			want: namespace("bank2")},
		"brackets match a range of characters": {spec: spec{IncludedNamespaces: []string{"bank[1-2]"}},
			want: namespace("bank1", "bank2")},
		"names and patterns together": {spec: spec{IncludedNamespaces: []string{"shop-test", "bank[2]"}},
			want: namespace("shop-test", "bank2").and(widgetCRD)},
		"excluded pattern wins over included pattern": {spec: spec{IncludedNamespaces: []string{"*-prod"},
			ExcludedNamespaces: []string{"bank*"}}, want: shopProd},
		"excluded name wins over included pattern": {spec: spec{IncludedNamespaces: []string{"bank?"},
			ExcludedNamespaces: []string{"bank1"}}, want: namespace("bank2")},
		"excluded pattern wins over included name": {spec: spec{IncludedNamespaces: []string{"bank1", "empty"},
			ExcludedNamespaces: []string{"bank*"}}, want: namespace("empty")},
		"a pattern that matches nothing is only a warning": {spec: spec{IncludedNamespaces: []string{"none-*"}},
			warnings: []string{"spec.includedNamespaces: none-* matches no namespace of the cluster"}},
		"an excluded namespace also excludes cluster-scoped objects that no action requests": {
			spec: spec{ExcludedNamespaces: []string{"shop-prod"}},
			want: all.namespaced().without(all.in("shop-prod")).and(all.namespaces().without(all.namespaces("shop-prod")),
				widgetCRD),
		},
		"an excluded pattern without includes": {
			spec: spec{ExcludedNamespaces: []string{"shop-*"}},
			want: all.namespaced().and(all.namespaces()).without(all.in("shop-prod", "shop-test"),
				all.namespaces("shop-prod", "shop-test")),
		},
		"star with an excluded name": {
			spec: spec{IncludedNamespaces: []string{"*"}, ExcludedNamespaces: []string{"bank1"}},
			want: all.namespaced().and(all.namespaces(), widgetCRD).without(all.in("bank1"), all.namespaces("bank1")),
		},
		"an included namespace that does not exist is an error, the rest is backed up": {
			spec: spec{IncludedNamespaces: []string{"bank1", "nowhere"}}, want: namespace("bank1"),
			errors: []string{"name: /nowhere message: /namespace of spec.includedNamespaces does not exist"},
		},
		"only a namespace that does not exist": {spec: spec{IncludedNamespaces: []string{"nowhere"}},
			errors: []string{"nowhere"}},
		"a namespace labelled for exclusion stays out even if named": {spec: spec{IncludedNamespaces: []string{"hidden",
			"bank1"}}, want: namespace("bank1")},
		"the server may have written labelled namespaces into the spec": {
			spec: spec{IncludedNamespaces: []string{"*"}, ExcludedNamespaces: []string{"hidden"}}, want: all,
		},
		"a terminating namespace is left out with a warning": {
			spec: spec{IncludedNamespaces: []string{"bank-leaving", "bank1"}}, want: namespace("bank1"),
			warnings: []string{"name: /bank-leaving message: /namespace is terminating"},
		},

		// Resources of both scopes.
		"only deployments": {spec: spec{IncludedResources: []string{"deployments"}}, want: all.kinds("Deployment")},
		"two resources": {spec: spec{IncludedResources: []string{"deployments", "configmaps"}},
			want: all.kinds("Deployment", "ConfigMap")},
		"short, singular, upper case and qualified names": {
			spec: spec{IncludedResources: []string{"cm", "secret", "Services", "deployments.apps", "wd"}},
			want: all.kinds("ConfigMap", "Secret", "Service", "Deployment", "Widget").and(widgetCRD),
		},
		"a resource of a namespace": {spec: spec{IncludedResources: []string{"configmaps"},
			IncludedNamespaces: []string{"bank1"}}, want: all.in("bank1")},
		"star is all resources":       {spec: spec{IncludedResources: []string{"*"}}, want: all},
		"star beats a name beside it": {spec: spec{IncludedResources: []string{"*", "configmaps"}}, want: all},
		"a cluster-scoped resource": {spec: spec{IncludedResources: []string{"persistentvolumes"}},
			want: all.kinds("PersistentVolume")},
		"a pattern of resources": {spec: spec{IncludedResources: []string{"*.example.com"}},
			want: all.kinds("Widget", "Gadget").and(widgetCRD, gadgetCRD)},
		"namespaces are a resource": {spec: spec{IncludedResources: []string{"namespaces"}}, want: all.namespaces()},
		"events are taken once": {spec: spec{IncludedResources: []string{"events", "events.events.k8s.io"}},
			want: all.kinds("Event")},
		"an unknown resource": {spec: spec{IncludedResources: []string{"unicorns"}},
			warnings: []string{"spec.includedResources: unicorns is not a resource of this cluster"}},
		"an unknown excluded resource": {spec: spec{ExcludedResources: []string{"unicorns"}}, want: all,
			warnings: []string{"spec.excludedResources: unicorns"}},
		"an excluded resource": {spec: spec{ExcludedResources: []string{"secrets"}}, want: all.without(all.kinds("Secret"))},
		"two excluded resources": {spec: spec{ExcludedResources: []string{"secrets", "clusterroles"}},
			want: all.without(all.kinds("Secret", "ClusterRole"))},
		"an excluded wildcard is ignored": {spec: spec{ExcludedResources: []string{"*"}}, want: all},
		"excludes win over includes": {
			spec: spec{IncludedResources: []string{"configmaps", "secrets"}, ExcludedResources: []string{"secrets"}},
			want: all.kinds("ConfigMap"),
		},
		"excluded definitions stay out though their objects are in": {
			spec: spec{IncludedNamespaces: []string{"shop-test"}, ExcludedResources: []string{"crd"}},
			want: namespace("shop-test"),
		},
		"cluster-scoped resources are not included with a namespace filter": {
			spec: spec{IncludedNamespaces: []string{"bank1"}, IncludedResources: []string{"configmaps", "persistentvolumes"}},
			want: all.in("bank1"),
		},
		"cluster resources true": {spec: spec{IncludeClusterResources: yes()}, want: all},
		"cluster resources true with a namespace": {
			spec: spec{IncludeClusterResources: yes(), IncludedNamespaces: []string{"bank1"}}, want: namespace("bank1").and(
				all.clusterScoped(),
			),
		},
		"cluster resources true, subject to included resources": {
			spec: spec{IncludeClusterResources: yes(), IncludedNamespaces: []string{"bank1"},
				IncludedResources: []string{"configmaps", "sc"}},
			want: all.in("bank1").and(all.kinds("StorageClass")),
		},
		"cluster resources false": {spec: spec{IncludeClusterResources: no()}, want: all.namespaced()},
		"cluster resources false with a namespace": {
			spec: spec{IncludeClusterResources: no(), IncludedNamespaces: []string{"shop-prod"}}, want: all.in("shop-prod"),
		},

		// Resources by scope.
		"some cluster-scoped resources": {
			spec: spec{IncludedClusterScopedResources: []string{"storageclasses", "clusterroles"}},
			want: all.namespaced().and(all.namespaces(), widgetCRD, all.kinds("StorageClass", "ClusterRole")),
		},
		"all cluster-scoped resources": {spec: spec{IncludedClusterScopedResources: []string{"*"}}, want: all},
		"a namespace and all cluster-scoped resources": {
			spec: spec{IncludedClusterScopedResources: []string{"*"}, IncludedNamespaces: []string{"bank1"}},
			want: namespace("bank1").and(all.clusterScoped()),
		},
		"a namespace and a cluster-scoped resource": {
			spec: spec{IncludedClusterScopedResources: []string{"storageclass"}, IncludedNamespaces: []string{"bank1"}},
			want: namespace("bank1").and(all.kinds("StorageClass")),
		},
		"some excluded cluster-scoped resources": {
			spec: spec{ExcludedClusterScopedResources: []string{"storageclasses", "clusterroles"}},
			want: all.without(all.kinds("StorageClass", "ClusterRole")),
		},
		"all cluster-scoped resources excluded": {spec: spec{ExcludedClusterScopedResources: []string{"*"}},
			want: all.namespaced()},
		"excluded cluster-scoped resources win": {
			spec: spec{IncludedClusterScopedResources: []string{"sc", "pv"}, ExcludedClusterScopedResources: []string{"pv"},
				IncludedNamespaces: []string{"bank1"}},
			want: namespace("bank1").and(all.kinds("StorageClass")),
		},
		"some namespace-scoped resources": {
			spec: spec{IncludedNamespaceScopedResources: []string{"deployments.apps", "configmaps"}},
			want: all.kinds("Deployment", "ConfigMap", "Namespace"),
		},
		"all namespace-scoped resources": {spec: spec{IncludedNamespaceScopedResources: []string{"*"}}, want: all},
		"an excluded namespace-scoped resource": {
			spec: spec{ExcludedNamespaceScopedResources: []string{"secrets"}},
			want: all.namespaced().without(all.kinds("Secret")).and(all.namespaces(), widgetCRD),
		},
		"no namespace-scoped resources, some cluster-scoped ones": {
			spec: spec{ExcludedNamespaceScopedResources: []string{"*"},
				IncludedClusterScopedResources: []string{"storageclass"}},
			want: all.kinds("StorageClass").and(all.namespaces()),
		},
		"what Velero's server always adds to the lists is not a filter": {
			spec: spec{ExcludedClusterScopedResources: []string{"volumesnapshotcontents.snapshot.storage.k8s.io"},
				ExcludedNamespaceScopedResources: []string{"volumesnapshots.snapshot.storage.k8s.io"}},
			want: all,
		},
		"a name of the wrong scope matches nothing": {
			spec: spec{IncludedNamespaceScopedResources: []string{"persistentvolumes"}}, want: all.namespaces(),
			warnings: []string{"spec.includedNamespaceScopedResources: persistentvolumes"},
		},

		// Labels.
		"a label": {
			spec: spec{LabelSelector: selector("app=web")},
			want: all.labelled("app", "web").and(all.namespaces("shop-prod"), widgetCRD, gadgetCRD),
		},
		"a label in a namespace": {
			spec: spec{LabelSelector: selector("app=web"), IncludedNamespaces: []string{"shop-prod"}},
			want: all.in("shop-prod").labelled("app", "web").and(all.namespaces("shop-prod"), widgetCRD),
		},
		"a label in namespaces where nothing has it": {
			spec:     spec{LabelSelector: selector("app=web"), IncludedNamespaces: []string{"bank1", "empty"}},
			want:     all.namespaces("bank1", "empty"),
			warnings: []string{`label selector "app=web" matches no object that the other filters of the backup include`},
		},
		"a label of namespaces": {spec: spec{LabelSelector: selector("env=prod")},
			want: all.namespaces("shop-prod", "bank-prod")},
		"one of some labels": {spec: spec{LabelSelector: selector("app in (bank,db)")},
			want: all.labelled("app", "bank", "db").and(all.namespaces("bank-prod", "shop-prod", "shop-test"))},
		"a label that nothing has": {spec: spec{LabelSelector: selector("app=none")},
			warnings: []string{`label selector "app=none" matches no object that the other filters of the backup include`}},
		"the empty selector": {spec: spec{LabelSelector: &metav1.LabelSelector{}}, want: all},
		"a label and a resource": {spec: spec{LabelSelector: selector("app=web"), IncludedResources: []string{"cm", "svc"}},
			want: all.labelled("app", "web").kinds("ConfigMap", "Service")},
		"not a label": {
			spec: spec{LabelSelector: selector("app,app notin (web)")}, want: all.labelled("app", "bank",
				"db").and(all.namespaces("bank-prod", "shop-prod", "shop-test")),
		},
		"one selector or another": {
			spec: spec{OrLabelSelectors: []*metav1.LabelSelector{selector("app=bank"), selector("env=test")}},
			want: all.labelled("app", "bank").and(all.namespaces("bank-prod", "shop-test")),
		},
		"objects that match several selectors are taken once": {
			spec: spec{OrLabelSelectors: []*metav1.LabelSelector{selector("app=db"), selector("app in (db,bank)")}},
			want: all.labelled("app", "bank", "db").and(all.namespaces("bank-prod", "shop-prod", "shop-test")),
		},

		// Additional items.
		"an additional cluster-scoped item comes along": {
			spec: spec{IncludedNamespaces: []string{"shop-prod"}}, action: requesting(nil, pv),
			want: shopProd.and(all.kinds("PersistentVolume")),
		},
		"additional items of other namespaces do not, their namespace does": {
			spec:   spec{IncludedNamespaces: []string{"shop-prod"}},
			action: requesting(nil, id("", "secrets", "bank-prod", "password"), id("", "namespaces", "", "empty")),
			want:   shopProd.and(all.namespaces("empty")),
		},
		"additional items of excluded resources do not": {
			spec:   spec{IncludedNamespaces: []string{"shop-prod"}, ExcludedNamespaceScopedResources: []string{"secrets"}},
			action: requesting(nil, id("", "secrets", "shop-prod", "password")), want: shopProd.without(all.kinds("Secret")),
		},
		"an additional item need not match the labels": {
			spec:   spec{LabelSelector: selector("app=db"), IncludedResources: []string{"pods", "secrets"}},
			action: requesting(nil, id("", "secrets", "bank-prod", "password")), want: all.kinds("Pod").and(
				all.in("bank-prod").kinds("Secret"),
			),
		},
		"an additional item with the exclude label does not come": {
			spec: spec{IncludedNamespaces: []string{"shop-prod"}}, action: requesting(nil,
				id("", "configmaps", "shop-prod", "skipped")), want: shopProd,
		},
		"cluster resources false refuses additional items": {
			spec: spec{IncludedNamespaces: []string{"shop-prod"}, IncludeClusterResources: no()}, action: requesting(nil, pv),
			want: all.in("shop-prod"),
		},
		"included resources refuse additional items": {spec: spec{IncludedResources: []string{"pods"}},
			action: requesting(nil, pv), want: all.kinds("Pod")},
		"excluded cluster-scoped resources refuse additional items": {
			spec:   spec{IncludedNamespaces: []string{"shop-prod"}, ExcludedClusterScopedResources: []string{"pv"}},
			action: requesting(nil, pv, id("storage.k8s.io", "storageclasses", "", "fixture-fast")),
			want:   shopProd.and(all.kinds("StorageClass")),
		},
		"an action that insists gets past every filter": {
			spec: spec{IncludedNamespaces: []string{"shop-prod"}, IncludedResources: []string{"pods"},
				IncludeClusterResources: no()},
			action: requesting(must, pv, id("", "secrets", "bank-prod", "password"),
				id("", "configmaps", "shop-prod", "skipped"),
				id("", "configmaps", "hidden", "settings"), id("", "configmaps", "shop-prod", "leaving")),
			want: all.in("shop-prod").kinds("Pod").and(all.kinds("PersistentVolume"), all.in("bank-prod").kinds("Secret"),
				set(fixture()).named("skipped"), set(fixture()).in("hidden")),
		},
		"an action excludes an item with its additional items": {
			spec:   spec{IncludedNamespaces: []string{"shop-prod"}},
			action: requesting(map[string]string{"velero.io/skip-from-backup": "yes"}, pv),
			want:   shopProd.without(all.kinds("Pod")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := backup.Request{Backup: newBackup(func(s *spec) { *s = row.spec })}
			if row.action != nil {
				req.Actions = []backupitemaction.Action{row.action}
			}
			b := take(t.Context(), t, deps, req)
			require.Equal(t, row.want.ids(), b.fixtureIDs())
			requireMessages(t, row.errors, b.Results.Errors.Velero, b.Errors)
			var warnings []string
			for _, namespace := range append(slices.Concat(b.Results.Warnings.Velero, b.Results.Warnings.Cluster),
				b.Results.Warnings.Namespaces["bank-leaving"]...) {
				// All filters that include all namespaces also include the terminating one.
				if len(row.warnings) > 0 && strings.Contains(row.warnings[0], "bank-leaving") ||
					!strings.Contains(namespace, "bank-leaving") {
					warnings = append(warnings, namespace)
				}
			}
			requireMessages(t, row.warnings, warnings, len(warnings))
		})
	}
}

// requireMessages requires one message for each part and no others.
func requireMessages(t *testing.T, parts, messages []string, count int) {
	t.Helper()
	require.Len(t, messages, len(parts), "%q", messages)
	require.Equal(t, len(parts), count, "%q", messages)
	for _, part := range parts {
		require.True(t, slices.ContainsFunc(messages, func(m string) bool { return strings.Contains(m, part) }), "%q in %q",
			part, messages)
	}
}

func TestInvalidSpecsFailTheBackup(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	for want, spec := range map[string]spec{
		`namespace pattern "a**": must not contain "**"`:     {IncludedNamespaces: []string{"a**"}},
		`namespace pattern "{a,b}": must not contain any of`: {ExcludedNamespaces: []string{"{a,b}"}},
		`namespace pattern "a[": has a "[" without a "]"`:    {IncludedNamespaces: []string{"a["}},
		"cannot be used together with the lists": {IncludedResources: []string{"pods"},
			ExcludedClusterScopedResources: []string{"pv"}},
		"labelSelector and orLabelSelectors cannot be": {LabelSelector: selector("a=b"),
			OrLabelSelectors: []*metav1.LabelSelector{selector("a=b")}},
		"spec: label selector": {LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}}},
	} {
		_, err := backup.Run(t.Context(), deps, backup.Request{Backup: newBackup(func(s *velerov1.BackupSpec) { *s = spec }),
			Log: discard()}, &strings.Builder{})
		require.ErrorContains(t, err, want)
	}
}

func TestUnsupportedRequestsOfTheSpecAreWarnings(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	b := take(t.Context(), t, deps, backup.Request{Backup: newBackup(func(s *spec) {
		s.IncludedNamespaces = []string{"empty"}
		s.SnapshotVolumes, s.DefaultVolumesToFsBackup, s.SnapshotMoveData = yes(), yes(), yes()
		s.OrderedResources = map[string]string{"unicorns": "a/b"}
	})})
	requireMessages(t, []string{"spec.orderedResources: unicorns"}, b.Results.Warnings.Velero, b.Warnings)
	require.Empty(t, b.Gaps, "what concerns the data of volumes asks for nothing where there are none")
}

func TestFieldsAboutVolumesAreNamedIfThereAreVolumes(t *testing.T) {
	t.Parallel()
	b := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{Backup: newBackup(func(s *spec) {
		s.IncludedNamespaces, s.IncludedClusterScopedResources = []string{"empty"}, []string{"persistentvolumes"}
		s.SnapshotVolumes, s.DefaultVolumesToFsBackup, s.SnapshotMoveData = yes(), yes(), yes()
		s.UploaderConfig = &velerov1.UploaderConfigForBackup{}
	})})
	require.Len(t, b.Gaps, 1)
	require.Contains(t, b.Gaps[0], "the data of 1 persistent volumes is not backed up")
	require.Contains(t, b.Gaps[0], "so these have no effect: spec.snapshotMoveData")
	require.Len(t, b.Results.Warnings.Velero, 1)

	quiet := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{Backup: newBackup(func(s *spec) {
		s.IncludedNamespaces, s.IncludedClusterScopedResources = []string{"empty"}, []string{"persistentvolumes"}
		s.UploaderConfig = &velerov1.UploaderConfigForBackup{}
		s.VolumeSnapshotLocations = []string{"merely-exists"}
	})})
	require.Empty(t, quiet.Results.Warnings.Velero, "spec.snapshotVolumes is false")
}

func TestVolumesWithoutTheirDataAreAWarning(t *testing.T) {
	t.Parallel()
	b := newBackup(nil)
	b.Spec.SnapshotVolumes = nil
	result := take(t.Context(), t, depsFor(t, fixtureWorld(t)), backup.Request{Backup: b})
	require.Len(t, result.Results.Warnings.Velero, 1)
	require.Contains(t, result.Results.Warnings.Velero[0], "the data of 1 persistent volumes is not backed up")
}

func TestOrderedResourcesComeFirst(t *testing.T) {
	t.Parallel()
	deps := depsFor(t, fixtureWorld(t))
	first := &testAction{name: "example.com/watching",
		selector: framework.ResourceSelector{IncludedResources: []string{"configmaps"}},
		execute:  func(item []byte) (*backupitemaction.Result, error) { return &backupitemaction.Result{Item: item}, nil }}
	b := take(t.Context(), t, deps, backup.Request{Actions: []backupitemaction.Action{first},
		Backup: newBackup(func(s *spec) {
			s.IncludedNamespaces = []string{"shop-*", "bank*"}
			s.OrderedResources = map[string]string{"configmaps": "shop-test/settings, " +
				"bank2/settings,bank1/nothing,hidden/settings,odd"}
		})})
	require.Equal(t, []string{"shop-test/settings", "bank2/settings"}, first.calls[:2])
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(first.calls))), len(first.calls), "each once")
	require.Contains(t, b.Results.Warnings.Namespaces["bank1"][0], "object does not exist")
	require.Contains(t, b.Results.Warnings.Cluster[0], "want namespace/name")
}
