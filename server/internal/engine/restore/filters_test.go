package restore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// filterWorld returns the backup that every row restores. All names of namespaces and cluster-scoped objects begin
// with p, so that rows do not interfere in the cluster.
func filterWorld(p string) []thing {
	web, db := obj{"app": "web"}, obj{"app": "db"}
	deployment := func(labels obj) obj {
		return obj{"metadata": obj{"labels": labels}, "spec": obj{
			"selector": obj{"matchLabels": obj{"x": "y"}}, "replicas": 0,
			"template": obj{"metadata": obj{"labels": obj{"x": "y"}},
				"spec": obj{"containers": []obj{{"name": "c", "image": "i"}}}},
		}}
	}
	pod := func(extra obj) obj {
		extra["spec"] = obj{"containers": []obj{{"name": "c", "image": "i"}}, "nodeName": "nowhere",
			"serviceAccountName": "runner"}
		return extra
	}
	job := obj{"spec": obj{"template": obj{"spec": obj{"restartPolicy": "Never",
		"containers": []obj{{"name": "c", "image": "i"}}}}}}
	doneJob := maps.Clone(job)
	doneJob["status"] = obj{"completionTime": "2026-01-01T00:00:00Z", "succeeded": 1}
	return []thing{
		namespaceThing(p+"team-a", labelled(web)),
		namespaceThing(p+"team-b", nil),
		namespaceThing(p+"team-c", nil), // without objects
		namespaceThing(p+"ops", nil),
		configMap(p+"team-a", "cm-a", labelled(web)),
		in("secrets", "v1", "Secret", p+"team-a", "secret-a", labelled(web)),
		in("deployments.apps", "apps/v1", "Deployment", p+"team-a", "deploy-a",
			deployment(obj{"app": "web", "tier": "front"})),
		configMap(p+"team-b", "cm-b", labelled(db)),
		in("deployments.apps", "apps/v1", "Deployment", p+"team-b", "deploy-b", deployment(db)),
		in("roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "Role", p+"team-b", "role-b", nil),
		configMap(p+"ops", "cm-ops", nil),
		in("serviceaccounts", "v1", "ServiceAccount", p+"ops", "runner", nil),
		in("pods", "v1", "Pod", p+"ops", "pod-running", pod(obj{"status": obj{"phase": "Running"}})),
		in("pods", "v1", "Pod", p+"ops", "pod-succeeded", pod(obj{"status": obj{"phase": "Succeeded"}})),
		in("pods", "v1", "Pod", p+"ops", "pod-failed", pod(obj{"status": obj{"phase": "Failed"}})),
		in("pods", "v1", "Pod", p+"ops", "pod-mirror",
			pod(obj{"metadata": obj{"annotations": obj{"kubernetes.io/config.mirror": "x"}}})),
		in("jobs.batch", "batch/v1", "Job", p+"ops", "job-done", doneJob),
		in("jobs.batch", "batch/v1", "Job", p+"ops", "job-open", job),
		in("clusterroles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRole", "", p+"role",
			labelled(web)),
		in("storageclasses.storage.k8s.io", "storage.k8s.io/v1", "StorageClass", "", p+"class",
			obj{"provisioner": "example.com/x"}),
		in("nodes", "v1", "Node", "", p+"node", nil),
		in("events", "v1", "Event", p+"ops", "event", obj{"involvedObject": obj{"namespace": p + "ops"}}),
	}
}

// Sets of objects that a row restores. A namespace is listed if the restore created it.
var (
	teamA = []string{"Namespace team-a", "ConfigMap team-a/cm-a", "Secret team-a/secret-a", "Deployment team-a/deploy-a"}
	teamB = []string{"Namespace team-b", "ConfigMap team-b/cm-b", "Deployment team-b/deploy-b", "Role team-b/role-b"}
	ops   = []string{"Namespace ops", "ConfigMap ops/cm-ops", "ServiceAccount ops/runner", "Pod ops/pod-running",
		"Job ops/job-open"}
	teamC    = []string{"Namespace team-c"}
	clusterS = []string{"ClusterRole role", "StorageClass class"}
)

func these(sets ...[]string) []string { return slices.Concat(sets...) }

func without(all []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// adds returns an action for deployments that requests additional items. "p/" is the prefix of the row.
func adds(items ...framework.ResourceIdentifier) func(p string) restoreitemaction.Action {
	return func(p string) restoreitemaction.Action {
		var wanted []framework.ResourceIdentifier
		for _, one := range items {
			if one.Namespace == "" {
				one.Name = p + one.Name
			} else {
				one.Namespace = p + one.Namespace
			}
			wanted = append(wanted, one)
		}
		return &fakeAction{
			name: "example.com/adds", applies: framework.ResourceSelector{IncludedResources: []string{"deployments"},
				IncludedNamespaces: []string{p + "team-a"}},
			execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
				return &restoreitemaction.Result{Item: in.Item, AdditionalItems: wanted}, nil
			},
		}
	}
}

// TestAcceptRestore_Filters checks the documentation of the Restore's fields. A namespace filter applies to the
// namespaces of the backup. Cluster-scoped objects are restored if includeClusterResources is true, or if it is unset
// and there is no namespace filter. Namespaces are created when an object is restored into them. Additional items must
// pass the filters of type and namespace, but not the labels; they may be cluster-scoped unless
// includeClusterResources is false.
func TestAcceptRestore_Filters(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	type spec = velerov1.RestoreSpec
	label := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	expression := func(key string, op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: key, Operator: op, Values: values},
		}}
	}
	const rbac = "rbac.authorization.k8s.io"
	clusterRole := framework.ResourceIdentifier{Group: rbac, Resource: "clusterroles", Name: "role"}
	secretA := framework.ResourceIdentifier{Resource: "secrets", Namespace: "team-a", Name: "secret-a"}
	cmB := framework.ResourceIdentifier{Resource: "configmaps", Namespace: "team-b", Name: "cm-b"}

	rows := []struct {
		name   string
		spec   spec // in names of namespaces, the row's prefix replaces "%"
		action func(p string) restoreitemaction.Action
		want   []string
	}{
		{name: "no filter brings everything back", want: these(teamA, teamB, teamC, ops, clusterS)},
		{name: "star is not a filter", spec: spec{IncludedNamespaces: []string{"*"}, IncludedResources: []string{"*"}},
			want: these(teamA, teamB, teamC, ops, clusterS)},

		{name: "one namespace", spec: spec{IncludedNamespaces: []string{"%team-a"}}, want: teamA},
		{name: "two namespaces", spec: spec{IncludedNamespaces: []string{"%team-a", "%ops"}}, want: these(teamA, ops)},
		{name: "namespace that the backup does not hold", spec: spec{IncludedNamespaces: []string{"%nope"}}, want: nil},
		{name: "all but one namespace", spec: spec{ExcludedNamespaces: []string{"%team-b"}}, want: these(teamA, ops)},
		{name: "star but one namespace", spec: spec{IncludedNamespaces: []string{"*"}, ExcludedNamespaces: []string{"%ops"}},
			want: these(teamA, teamB)},
		{name: "excluded wins over included", spec: spec{IncludedNamespaces: []string{"%team-a", "%team-b"},
			ExcludedNamespaces: []string{"%team-b"}}, want: teamA},
		{name: "namespace glob with a star", spec: spec{IncludedNamespaces: []string{"%team-*"}}, want: these(teamA, teamB)},
		{name: "namespace glob with a question mark", spec: spec{IncludedNamespaces: []string{"%op?"}}, want: ops},
		{name: "namespace glob with a class", spec: spec{IncludedNamespaces: []string{"%team-[bc]"}}, want: teamB},
		{name: "namespace glob that matches nothing is not everything", spec: spec{IncludedNamespaces: []string{"%zzz*"}},
			want: nil},
		{name: "excluded glob", spec: spec{IncludedNamespaces: []string{"%team-*"}, ExcludedNamespaces: []string{"*-a"}},
			want: teamB},
		{name: "excluded glob with everything included", spec: spec{ExcludedNamespaces: []string{"%team-*"}}, want: ops},

		{name: "one namespace with cluster-scoped objects", spec: spec{IncludedNamespaces: []string{"%team-a"},
			IncludeClusterResources: &yes}, want: these(teamA, clusterS)},
		{name: "all but one namespace with cluster-scoped objects", spec: spec{ExcludedNamespaces: []string{"%ops"},
			IncludeClusterResources: &yes}, want: these(teamA, teamB, teamC, clusterS)},
		{name: "everything but cluster-scoped objects", spec: spec{IncludeClusterResources: &no},
			want: these(teamA, teamB, ops)},
		{name: "everything with cluster-scoped objects", spec: spec{IncludeClusterResources: &yes},
			want: these(teamA, teamB, teamC, ops, clusterS)},

		{name: "one resource by its plural name", spec: spec{IncludedResources: []string{"configmaps"}},
			want: []string{"Namespace team-a", "ConfigMap team-a/cm-a", "Namespace team-b", "ConfigMap team-b/cm-b",
				"Namespace ops", "ConfigMap ops/cm-ops"}},
		{name: "one resource by its short name", spec: spec{IncludedResources: []string{"cm"},
			IncludedNamespaces: []string{"%ops"}}, want: []string{"Namespace ops", "ConfigMap ops/cm-ops"}},
		{name: "one resource by its singular name", spec: spec{IncludedResources: []string{"configmap"},
			IncludedNamespaces: []string{"%ops"}}, want: []string{"Namespace ops", "ConfigMap ops/cm-ops"}},
		{name: "one resource with its group", spec: spec{IncludedResources: []string{"deployments.apps"}},
			want: []string{"Namespace team-a", "Deployment team-a/deploy-a", "Namespace team-b", "Deployment team-b/deploy-b"}},
		{name: "resources of a group by a glob", spec: spec{IncludedResources: []string{"*." + rbac}},
			want: []string{"Namespace team-b", "Role team-b/role-b", "ClusterRole role"}},
		{name: "a resource that does not exist is not everything",
			spec: spec{IncludedResources: []string{"gadgets.example.com"}}, want: nil},
		{name: "namespaces alone", spec: spec{IncludedResources: []string{"namespaces"}},
			want: []string{"Namespace team-a", "Namespace team-b", "Namespace team-c", "Namespace ops"}},
		{name: "all but one resource", spec: spec{ExcludedResources: []string{"secrets"}},
			want: these(without(teamA, "Secret team-a/secret-a"), teamB, teamC, ops, clusterS)},
		{name: "all but resources by short names",
			spec: spec{IncludedResources: []string{"*"}, ExcludedResources: []string{"cm", "deploy", "po", "sc"}},
			want: []string{"Namespace team-a", "Secret team-a/secret-a", "Namespace team-b", "Role team-b/role-b",
				"Namespace team-c", "Namespace ops", "ServiceAccount ops/runner", "Job ops/job-open", "ClusterRole role"}},
		{name: "excluded resource wins", spec: spec{IncludedResources: []string{"configmaps", "secrets"},
			ExcludedResources: []string{"configmaps"}}, want: []string{"Namespace team-a", "Secret team-a/secret-a"}},
		{name: "without namespace objects namespaces are made when needed",
			spec: spec{ExcludedResources: []string{"namespaces"}}, want: these(teamA, teamB, ops, clusterS)},
		{name: "cluster-scoped resource without a namespace filter", spec: spec{IncludedResources: []string{"clusterroles"}},
			want: []string{"ClusterRole role"}},
		{name: "cluster-scoped resource with a namespace filter", spec: spec{IncludedResources: []string{"clusterroles"},
			IncludedNamespaces: []string{"%team-a"}}, want: nil},
		{name: "cluster-scoped resource with a namespace filter, requested",
			spec: spec{IncludedResources: []string{"clusterroles"}, IncludedNamespaces: []string{"%team-a"},
				IncludeClusterResources: &yes}, want: []string{"ClusterRole role"}},
		{name: "resources that are never restored", spec: spec{IncludedResources: []string{"events", "nodes", "ev", "no"}},
			want: nil},

		{name: "label", spec: spec{LabelSelector: label("app", "web")}, want: these(teamA, []string{"ClusterRole role"})},
		{name: "label and namespace", spec: spec{LabelSelector: label("app", "db"), IncludedNamespaces: []string{"%team-*"}},
			want: []string{"Namespace team-b", "ConfigMap team-b/cm-b", "Deployment team-b/deploy-b"}},
		{name: "label expression in",
			spec: spec{LabelSelector: expression("tier", metav1.LabelSelectorOpIn, "front", "back")},
			want: []string{"Namespace team-a", "Deployment team-a/deploy-a"}},
		{name: "label expression does not exist",
			spec: spec{LabelSelector: expression("app", metav1.LabelSelectorOpDoesNotExist),
				IncludedNamespaces: []string{"%team-*"}}, want: []string{"Namespace team-b", "Role team-b/role-b"}},
		{name: "one of several label selectors",
			spec: spec{OrLabelSelectors: []*metav1.LabelSelector{label("tier", "front"), label("app", "db")}},
			want: []string{"Namespace team-a", "Deployment team-a/deploy-a", "Namespace team-b", "ConfigMap team-b/cm-b",
				"Deployment team-b/deploy-b"}},
		{name: "empty label selector", spec: spec{LabelSelector: &metav1.LabelSelector{}},
			want: these(teamA, teamB, teamC, ops, clusterS)},

		{name: "mapped namespace", spec: spec{IncludedNamespaces: []string{"%team-b"},
			NamespaceMapping: map[string]string{"%team-b": "%new"}}, want: []string{"Namespace new", "ConfigMap new/cm-b",
			"Deployment new/deploy-b", "Role new/role-b"}},
		{name: "filters know the names of the backup only", spec: spec{IncludedNamespaces: []string{"%new"},
			NamespaceMapping: map[string]string{"%team-b": "%new"}}, want: nil},
		{name: "two namespaces mapped into one", spec: spec{IncludedNamespaces: []string{"%team-*"},
			IncludedResources: []string{"configmaps"}, NamespaceMapping: map[string]string{"%team-a": "%new",
				"%team-b": "%new"}}, want: []string{"Namespace new", "ConfigMap new/cm-a", "ConfigMap new/cm-b"}},
		{name: "mapping of all namespaces", spec: spec{IncludedResources: []string{"namespaces"},
			NamespaceMapping: map[string]string{"%team-a": "%a2"}}, want: []string{"Namespace a2", "Namespace team-b",
			"Namespace team-c", "Namespace ops"}},

		{name: "additional cluster-scoped item", action: adds(clusterRole),
			spec: spec{IncludedNamespaces: []string{"%team-a"}}, want: these(teamA, []string{"ClusterRole role"})},
		{name: "additional cluster-scoped item, refused", action: adds(clusterRole),
			spec: spec{IncludedNamespaces: []string{"%team-a"}, IncludeClusterResources: &no}, want: teamA},
		{name: "additional item of a type that is left out", action: adds(secretA),
			spec: spec{IncludedResources: []string{"deployments"}, IncludedNamespaces: []string{"%team-a"}},
			want: []string{"Namespace team-a", "Deployment team-a/deploy-a"}},
		{name: "additional item of a namespace that is left out", action: adds(cmB),
			spec: spec{IncludedNamespaces: []string{"%team-a"}}, want: teamA},
		{name: "additional item of other labels", action: adds(cmB, secretA),
			spec: spec{LabelSelector: label("tier", "front")}, want: []string{"Namespace team-a", "Deployment team-a/deploy-a",
				"Secret team-a/secret-a", "Namespace team-b", "ConfigMap team-b/cm-b"}},
	}
	require.GreaterOrEqual(t, len(rows), 30)
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			p := fmt.Sprintf("f%02d-", i)
			put := func(names []string) {
				for i := range names {
					names[i] = strings.ReplaceAll(names[i], "%", p)
				}
			}
			put(row.spec.IncludedNamespaces)
			put(row.spec.ExcludedNamespaces)
			mapping := map[string]string{}
			for from, to := range row.spec.NamespaceMapping {
				mapping[strings.ReplaceAll(from, "%", p)] = strings.ReplaceAll(to, "%", p)
			}
			restore := newRestore(p+"r", nil)
			restore.Spec = row.spec
			restore.Spec.BackupName, restore.Spec.NamespaceMapping = "b", mapping
			var actions []restoreitemaction.Action
			if row.action != nil {
				actions = append(actions, row.action(p))
			}
			result := c.mustRestore(pack(t, filterWorld(p)...), restore, actions...)
			require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
			require.ElementsMatch(t, row.want, created(result, p))
		})
	}
}

// created returns the created objects as "Kind namespace/name", without the prefix of the row.
func created(result *Result, p string) []string {
	var got []string
	for key, entries := range lists(result) {
		for _, entry := range entries {
			if name, ok := strings.CutSuffix(entry, "(created)"); ok {
				got = append(got, itemKey{listKey: key}.kind()+" "+strings.TrimPrefix(name, p))
			}
		}
	}
	return got
}

func TestInvalidFiltersFailTheRestore(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, tt := range map[string]struct {
		change func(*velerov1.RestoreSpec)
		says   string
	}{
		"star excluded": {func(s *velerov1.RestoreSpec) { s.ExcludedNamespaces = []string{"*"} },
			`excludedNamespaces holds "*"`},
		"bad namespace glob": {func(s *velerov1.RestoreSpec) { s.IncludedNamespaces = []string{"a[b"} }, `"a[b"`},
		"bad label operator": {func(s *velerov1.RestoreSpec) {
			s.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: "Near"},
			}}
		}, "Near"},
		"both label filters": {func(s *velerov1.RestoreSpec) {
			s.LabelSelector = &metav1.LabelSelector{}
			s.OrLabelSelectors = []*metav1.LabelSelector{{}}
		}, "cannot be used together"},
		"bad resource glob": {func(s *velerov1.RestoreSpec) { s.IncludedResources = []string{"a[b"} }, `"a[b"`},
		"bad status resource": {func(s *velerov1.RestoreSpec) {
			s.RestoreStatus = &velerov1.RestoreStatusSpec{IncludedResources: []string{"a[b"}}
		}, "restoreStatus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.restore(pack(t, configMap("default", "x", nil)), newRestore("r", tt.change), testOptions())
			require.ErrorContains(t, err, tt.says)
		})
	}
}
