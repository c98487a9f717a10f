package itemoverlap_test

import (
	"cmp"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/itemoverlap"
)

type spec = velerov1.BackupSpec

func included(names ...string) spec { return spec{IncludedResources: names} }
func excluded(names ...string) spec { return spec{ExcludedResources: names} }

func selecting(requirements ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: requirements}
}

func label(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

// maps returns a backup of the config maps that a selector matches. They add no other objects.
func maps(selectors ...*metav1.LabelSelector) spec {
	return spec{IncludedResources: []string{"configmaps"}, OrLabelSelectors: selectors}
}

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func TestBackupsOfOneNamespaceRunTogetherIfTheyShareNothing(t *testing.T) {
	t.Parallel()
	const in, notIn, exists, absent = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
		metav1.LabelSelectorOpDoesNotExist
	for name, test := range map[string]struct {
		config   string
		a, b     spec
		together bool
	}{
		"no filters":                     {a: spec{}, b: spec{}},
		"different resources":            {a: included("configmaps"), b: included("secrets", "services"), together: true},
		"the same resource among others": {a: included("configmaps", "secrets"), b: included("secrets", "services")},
		"two spellings of one":           {a: included("deploy"), b: included("Deployments.apps")},
		"all spellings of different ones": {a: included("deploy", "po"), b: included("sts.apps", "configmap"),
			together: true},
		"one of all":             {a: included("*"), b: included("secrets")},
		"all but it":             {a: excluded("secret"), b: included("secrets"), together: true},
		"all but another":        {a: excluded("pods"), b: included("secrets")},
		"both exclude something": {a: excluded("pods"), b: excluded("secrets")},
		"included and excluded": {a: spec{IncludedResources: []string{"secrets", "pods"},
			ExcludedResources: []string{"secrets"}}, b: included("secrets"), together: true},
		"a custom resource and a built-in one": {a: included("widgets.example.com"), b: included("pods"), together: true},
		"custom resources of two groups": {a: included("widgets.example.com"), b: included("widgets.example.org"),
			together: true},
		"perhaps two names of one custom resource": {a: included("widgets.example.com"), b: included("wd.example.com")},
		"a custom resource without its group":      {a: included("widgets"), b: included("gadgets.example.com")},
		"a built-in word in a group of its own": {a: included("pods.metrics.example.com"), b: included("pods"),
			together: true},
		"an exclude that may be another name of it": {a: excluded("wd"), b: included("widgets.example.com")},
		"exclude all, which servers pass over":      {a: excluded("*"), b: spec{}},
		"exclude all namespaced ones": {a: spec{ExcludedNamespaceScopedResources: []string{"*"}}, b: spec{},
			together: true},
		"scoped lists": {a: spec{IncludedNamespaceScopedResources: []string{"secrets"}},
			b: spec{IncludedNamespaceScopedResources: []string{"pods"}}, together: true},
		"scoped lists that meet among cluster ones": {a: spec{IncludedNamespaceScopedResources: []string{"secrets"},
			IncludedClusterScopedResources: []string{"sc"}}, b: spec{IncludedNamespaceScopedResources: []string{"pods"},
			IncludedClusterScopedResources: []string{"storageclasses"}}},
		"an old list and a scoped one": {a: included("secrets"),
			b: spec{IncludedNamespaceScopedResources: []string{"configmaps"}}, together: true},
		"labels that exclude each other": {a: maps(app("a")), b: maps(app("b")), together: true},
		"the same labels":                {a: maps(app("a")), b: maps(app("a"))},
		"labels of two keys":             {a: maps(app("a")), b: maps(selecting(label("tier", in, "gold")))},
		"sets that meet": {a: maps(selecting(label("app", in, "a", "b"))),
			b: maps(selecting(label("app", in, "b", "c")))},
		"sets that do not": {a: maps(selecting(label("app", in, "a", "b"))),
			b: maps(selecting(label("app", in, "c"))), together: true},
		"in and not in": {a: maps(selecting(label("app", in, "a"))),
			b: maps(selecting(label("app", notIn, "a", "z"))), together: true},
		"in and not in of some": {a: maps(selecting(label("app", in, "a", "b"))),
			b: maps(selecting(label("app", notIn, "a")))},
		"there and not there": {a: maps(selecting(label("app", exists))),
			b: maps(selecting(label("app", absent))), together: true},
		"one of some and not there": {a: maps(app("a")), b: maps(selecting(label("app", absent))), together: true},
		"not one of some and not there": {a: maps(selecting(label("app", notIn, "a"))),
			b: maps(selecting(label("app", absent)))},
		"alternatives that all exclude each other": {a: maps(app("a"), app("b")), b: maps(app("c"), app("d")),
			together: true},
		"alternatives of which two meet":             {a: maps(app("a"), app("b")), b: maps(app("c"), app("b"))},
		"a selector and none":                        {a: maps(app("a")), b: maps()},
		"an operator that is not known":              {a: maps(app("a")), b: maps(selecting(label("app", "Like", "b")))},
		"pods of different labels may share a claim": {a: spec{LabelSelector: app("a")}, b: spec{LabelSelector: app("b")}},
		"unless no volume is shared": {config: `{"sharedVolumes":false}`, a: spec{LabelSelector: app("a")},
			b: spec{LabelSelector: app("b")}, together: true},
		"or neither takes pods": {a: spec{LabelSelector: app("a"),
			ExcludedResources: []string{"pods", "pvc"}}, b: spec{LabelSelector: app("b"), ExcludedResources: []string{"po",
			"pvc"}}, together: true},
		"claims alone": {a: spec{IncludedResources: []string{"pvc"}, LabelSelector: app("a")},
			b: spec{IncludedResources: []string{"pvc"}, LabelSelector: app("b")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := plugintest.Run(t, itemoverlap.Register()).QueueAdmissionV1(itemoverlap.Name,
				plugintest.WithConfig(json.RawMessage(cmp.Or(test.config, "{}"))))
			for _, queue := range [][]qav1.Backup{
				{backup(t, "a", test.a, "shop"), backup(t, "b", test.b, "shop")},
				{backup(t, "b", test.b, "shop"), backup(t, "a", test.a, "shop")},
			} {
				decision, err := policy.Decide(t.Context(), &qav1.DecideInput{Limit: 5, Queued: queue})
				require.NoError(t, err)
				if test.together {
					require.Len(t, decision.Admit, 2)
					continue
				}
				require.Equal(t, []string{queue[0].Name}, decision.Admit)
				require.Equal(t, []string{queue[0].Name}, decision.Waits[0].Blockers)
				require.Equal(t, []string{"shop"}, decision.Waits[0].Namespaces)
			}
		})
	}
}

func backup(t *testing.T, name string, s spec, namespaces ...string) qav1.Backup {
	t.Helper()
	encoded, err := json.Marshal(s)
	require.NoError(t, err)
	scope := qav1.ClusterScopeRelated
	switch {
	case s.IncludeClusterResources != nil && !*s.IncludeClusterResources:
		scope = qav1.ClusterScopeNone
	case s.IncludeClusterResources != nil || len(s.IncludedClusterScopedResources) > 0:
		scope = qav1.ClusterScopeAll
	}
	return qav1.Backup{Name: name, Namespaces: namespaces, Spec: encoded, ClusterScope: scope}
}

// TestBackupWaitsInDoubt has a case for each doubt whether two backups share something.
func TestBackupWaitsInDoubt(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	withCluster := func(names ...string) spec { return spec{IncludedResources: names, IncludeClusterResources: &yes} }
	policy := func(s spec) spec {
		s.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "ConfigMap", Name: "more"}
		return s
	}
	for name, test := range map[string]struct {
		a, b     spec
		apart    bool   // in different namespaces
		together bool   // there is no doubt
		message  string // the reason for which b waits
	}{
		"a pattern may be any resource":                {a: included("*.apps"), b: included("deployments")},
		"also one of a letter":                         {a: included("secret?"), b: included("secrets")},
		"or of alternatives":                           {a: included("{pods,secrets}"), b: included("secrets")},
		"an excluded pattern may leave some":           {a: excluded("secret*"), b: included("secrets")},
		"a group that is cut short":                    {a: included("deploy.ap"), b: included("deployments")},
		"a custom resource's, too":                     {a: included("widgets.example"), b: included("wd.example.com")},
		"the group of old servers":                     {a: included("deployments.extensions"), b: included("deploy")},
		"which is not an exclude":                      {a: excluded("deployments.extensions"), b: included("deploy")},
		"a group of other letters excludes nothing":    {a: excluded("deployments.APPS"), b: included("deploy")},
		"nor does a blank":                             {a: excluded(" secrets"), b: included("secrets")},
		"a short name that a custom resource may have": {a: included("quota"), b: included("quotas.example.com")},
		"or mean the built-in one":                     {a: included("quota"), b: included("resourcequotas")},
		"pods and claims are of one volume":            {a: included("pods"), b: included("pvc")},
		"a resource policy may include more":           {a: policy(included("configmaps")), b: included("secrets")},
		"but not what the spec excludes": {a: policy(
			spec{ExcludedNamespaceScopedResources: []string{"secrets"}},
		), b: included("secrets"), together: true},
		"cluster resources of two namespaces": {a: withCluster("configmaps", "sc"),
			b: withCluster("secrets", "storageclasses"), apart: true,
			message: "may share objects that belong to no namespace with a, which runs"},
		"of which there are none in common": {a: withCluster("configmaps", "sc"),
			b: withCluster("secrets", "crds"), apart: true, together: true},
		"or which are let through by different labels": {a: withLabel(withCluster("sc"), "a"),
			b: withLabel(withCluster("sc"), "b"), apart: true, together: true},
		"or that one takes along with others only": {a: withCluster("clusterroles"),
			b: included("serviceaccounts", "clusterroles"), apart: true, together: true},
		"or that one does without": {a: withCluster(),
			b: spec{IncludeClusterResources: &no, ExcludedResources: []string{"po", "pvc"}}, apart: true, together: true},
		"all volumes and a claim of another namespace": {a: withCluster("persistentvolumes"), b: included("pvc"),
			apart: true, message: "may share objects that belong to no namespace with a, which runs"},
		"whatever the labels": {a: withLabel(withCluster("pv"), "a"),
			b: withLabel(included("po"), "b"), apart: true,
			message: "may share objects that belong to no namespace with a, which runs"},
		"all volumes and what has none": {a: withCluster("pv"), b: included("configmaps"), apart: true, together: true},
		"all volumes in scoped lists": {a: spec{IncludedNamespaceScopedResources: []string{"secrets"},
			IncludedClusterScopedResources: []string{"*"}}, b: spec{IncludedNamespaceScopedResources: []string{"pods"}},
			apart: true, message: "may share objects that belong to no namespace with a, which runs"},
		"a policy that may include cluster resources": {a: policy(
			spec{IncludedNamespaceScopedResources: []string{"configmaps"}},
		), b: withCluster("secrets", "sc"), apart: true,
			message: "may share objects that belong to no namespace with a, which runs"},
		"neither takes cluster resources for themselves": {a: spec{}, b: spec{}, apart: true, together: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := plugintest.Run(t, itemoverlap.Register()).QueueAdmissionV1(itemoverlap.Name)
			namespaces := map[string]string{"a": "shop", "b": "shop"}
			if test.apart {
				namespaces["b"] = "yard"
			}
			a, b := backup(t, "a", test.a, namespaces["a"]), backup(t, "b", test.b, namespaces["b"])
			for _, queue := range [][]qav1.Backup{{a, b}, {b, a}} {
				decision, err := policy.Decide(t.Context(), &qav1.DecideInput{Limit: 5, Queued: queue})
				require.NoError(t, err)
				if test.together {
					require.Len(t, decision.Admit, 2)
					continue
				}
				require.Equal(t, []string{queue[0].Name}, decision.Admit)
				require.Equal(t, []string{queue[0].Name}, decision.Waits[0].Blockers)
				if test.message != "" && queue[0].Name == "a" {
					require.Equal(t, test.message, decision.Waits[0].Message)
					require.Equal(t, "ClusterOverlap", decision.Waits[0].Reason)
				}
			}
		})
	}
}

func withLabel(s spec, name string) spec {
	s.LabelSelector = app(name)
	return s
}

func TestUnreadableSpecSharesEverything(t *testing.T) {
	t.Parallel()
	policy := plugintest.Run(t, itemoverlap.Register()).QueueAdmissionV1(itemoverlap.Name)
	decision, err := policy.Decide(t.Context(), &qav1.DecideInput{Limit: 5, Queued: []qav1.Backup{
		{Name: "a", Namespaces: []string{"shop"}, Spec: []byte("{"), ClusterScope: qav1.ClusterScopeRelated}, backup(t, "b",
			included("secrets"), "shop"), backup(t, "c", included("pods"), "elsewhere"),
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, decision.Admit)
}

func TestOtherBackupsOfNamespaceDoNotCount(t *testing.T) {
	t.Parallel()
	policy := plugintest.Run(t, itemoverlap.Register()).QueueAdmissionV1(itemoverlap.Name)
	snapshot := &qav1.DecideInput{Limit: 5, Running: []qav1.Backup{backup(t, "r", included("pods"), "shop")},
		Queued: []qav1.Backup{
			backup(t, "waits", included("pods", "secrets"), "shop"), backup(t, "after", included("secrets"), "shop"), backup(t,
				"free", included("cm"), "shop"),
		}}
	decision, err := policy.Decide(t.Context(), snapshot)
	require.NoError(t, err)
	require.Equal(t, []string{"free"}, decision.Admit)
	require.Equal(t, []string{"r"}, decision.Waits[0].Blockers)
	require.Equal(t, []string{"waits"}, decision.Waits[1].Blockers)
}
