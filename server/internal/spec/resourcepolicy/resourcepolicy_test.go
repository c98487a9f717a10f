package resourcepolicy

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

func configMap(document string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "policy"},
		Data: map[string]string{"p": document}}
}

func TestParseReadsEveryField(t *testing.T) {
	t.Parallel()
	got, err := Parse(configMap(`
version: v1
includeExcludePolicy:
  includedClusterScopedResources: [crd, pv]
  excludedClusterScopedResources: []
  includedNamespaceScopedResources: [pod, "*.apps"]
  excludedNamespaceScopedResources: [secret]
volumePolicies:
- conditions: {capacity: "10,100Gi", csi: {driver: ebs.csi.aws.com, volumeAttributes: {a: b}}, storageClass: [gp2], pvcPhase: [Pending], pvcLabels: {a: true}}
  action: {type: skip, parameters: {any: [thing]}}
- conditions: {capacity: "10Gi,", nfs: {server: 192.168.200.90, path: /x}}
  action: {type: fs-backup}
- conditions: {csi: {}, nfs: {}, volumeTypes: [emptyDir]}
  action: {type: snapshot}
- action: {type: custom}
`))
	require.NoError(t, err)
	require.Len(t, got.VolumePolicies, 4)
	require.Equal(t, &Policy{VolumePolicies: got.VolumePolicies, Resources: &filter.ScopedLists{
		IncludedClusterScoped: []string{"crd", "pv"}, ExcludedClusterScoped: []string{},
		IncludedNamespaced: []string{"pod", "*.apps"}, ExcludedNamespaced: []string{"secret"},
	}, Warnings: []string{"resource policy in config map velero/policy: volumePolicies[0].action.parameters.any: action " +
		"skip has no such parameter, so it has no effect"}}, got)

	got, err = Parse(configMap(`
version: v1
volumePolicies: [{conditions: {pvcVolumeMode: Block, pvcAccessModes: [ReadWriteOnce]}, action: {type: skip}}]
clusterScopedFilterPolicy: {resourceFilters: [{kinds: [StorageClass], names: ["fast-*"], excludedNames: [fast-1]}]}
namespacedFilterPolicies:
- namespaces: [a, "b-*"]
  resourceFilters:
  - {kinds: [ConfigMap], labelSelector: {matchLabels: {app: x}, matchExpressions: [{key: tmp, operator: DoesNotExist}]}}
  - {kinds: [Secret], orLabelSelectors: [{matchLabels: {app: x}}, {matchLabels: {app: y}}]}
  - {kinds: ["*"], labelSelector: {}}
`))
	require.NoError(t, err)
	require.Len(t, got.Rules.Cluster, 1)
	require.Equal(t, []string{"fast-*"}, got.Rules.Cluster[0].Names.Includes())
	require.Equal(t, []string{"fast-1"}, got.Rules.Cluster[0].Names.Excludes())
	require.Equal(t, []string{"a", "b-*"}, got.Rules.Namespaces[0].Namespaces)
	require.Equal(t, "app=x,!tmp", got.Rules.Namespaces[0].Rules[0].Selectors[0].String())
	require.Len(t, got.Rules.Namespaces[0].Rules[1].Selectors, 2)
	require.True(t, got.Rules.Namespaces[0].Rules[2].Rest())
	require.Empty(t, got.Rules.Namespaces[0].Rules[2].Selectors)

	got, err = Parse(configMap("version: v1"))
	require.NoError(t, err)
	require.Equal(t, &Policy{}, got)
}

func TestParseRejectsInvalidPolicies(t *testing.T) {
	t.Parallel()
	lists := func(text string) string { return "version: v1\nincludeExcludePolicy: " + text }
	volumes := func(text string) string {
		return "version: v1\nvolumePolicies: [{action: {type: skip}}, " + text + "]"
	}
	filters := func(text string) string {
		return "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [" + text + "]}]"
	}
	cluster := func(text string) string {
		return "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [" + text + "]}"
	}
	for want, document := range map[string]string{
		"namespacedFilterPolicies[0].resourceFilters: it is empty":                                                     filters(""),
		"namespacedFilterPolicies[0].namespaces: it is empty":                                                          "version: v1\nnamespacedFilterPolicies: [{resourceFilters: [{}]}]",
		`namespacedFilterPolicies[0].namespaces: namespace pattern "{a}"`:                                              "version: v1\nnamespacedFilterPolicies: [{namespaces: ['{a}'], resourceFilters: [{}]}]",
		"namespacedFilterPolicies[1].namespaces: a is also in namespacedFilterPolicies[0]":                             "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{}]}, {namespaces: [a], resourceFilters: [{}]}]",
		"namespacedFilterPolicies[0].resourceFilters[1].kinds: another filter is already for all other kinds":          filters("{}, {kinds: ['*']}"),
		"namespacedFilterPolicies[0].resourceFilters[1].kinds: pod is also in resourceFilters[0]":                      filters("{kinds: [Pod]}, {kinds: [pod]}"),
		"namespacedFilterPolicies[0].resourceFilters[0].names: they need kinds":                                        filters("{names: [x]}"),
		"namespacedFilterPolicies[0].resourceFilters[0].orLabelSelectors: labelSelector is set too":                    filters("{kinds: [Pod], labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{matchLabels: {a: b}}]}"),
		`namespacedFilterPolicies[0].resourceFilters[0].labelSelector: "Maybe" is not a valid label selector operator`: filters("{kinds: [Pod], labelSelector: {matchExpressions: [{key: a, operator: Maybe}]}}"),
		`namespacedFilterPolicies[0].resourceFilters[0].names: included name: pattern "[a"`:                            filters("{kinds: [Pod], names: ['[a']}"),
		"clusterScopedFilterPolicy.resourceFilters: it is empty":                                                       cluster(""),
		"clusterScopedFilterPolicy.resourceFilters[0].kinds: name the kinds":                                           cluster("{labelSelector: {matchLabels: {a: b}}}"),
		`version: "" is not supported, want v1`:                                                                        "",
		`version: "V1" is not supported, want v1`:                                                                      "version: V1",
		`json: unknown field "policies"`:                                                                               "version: v1\npolicies: []",
		`key "version" already set`:                                                                                    "version: v1\nversion: v1",
		`unknown field "includedResources"`: lists(
			"{includedResources: [pods]}",
		),
		"includeExcludePolicy.includedNamespaceScopedResources: * is not allowed in a policy, want names": lists(
			"{includedNamespaceScopedResources: [pods, '*']}",
		),
		"includeExcludePolicy.excludedClusterScopedResources: * is not allowed": lists(
			"{excludedClusterScopedResources: ['*']}",
		),
		"includeExcludePolicy.excludedClusterScopedResources: pv is also in includedClusterScopedResources, want it in " +
			"only one": lists("{includedClusterScopedResources: [pv], excludedClusterScopedResources: [crd, pv]}"),
		`includeExcludePolicy.includedClusterScopedResources: pattern "[a"`: lists(
			"{includedClusterScopedResources: ['[a']}",
		),
		`volumePolicies[1].action.type: "" is not supported, want one of skip, snapshot, fs-backup, custom`: volumes("{}"),
		`volumePolicies[1].action.type: "Skip"`: volumes(
			"{action: {type: Skip}}",
		),
		`unknown field "size"`: volumes(
			"{action: {type: skip}, conditions: {size: 1}}",
		),
		`volumePolicies[1].conditions.capacity: "1Gi" is not a range, want two`: volumes(
			"{action: {type: skip}, conditions: {capacity: 1Gi}}",
		),
		`volumePolicies[1].conditions.capacity: "1,2,3" is not a range`: volumes(
			`{action: {type: skip}, conditions: {capacity: "1,2,3"}}`,
		),
		`volumePolicies[1].conditions.capacity: "lots": `: volumes(
			`{action: {type: skip}, conditions: {capacity: "1, lots"}}`,
		),
		`volumePolicies[1].conditions.capacity: "2Gi,1Gi" has its larger`: volumes(
			`{action: {type: skip}, conditions: {capacity: "2Gi,1Gi"}}`,
		),
		"volumePolicies[1].conditions.csi.driver: it is missing, but volumeAttributes": volumes(
			"{action: {type: skip}, conditions: {csi: {volumeAttributes: {a: b}}}}",
		),
		"volumePolicies[1].action.parameters.snapshotClass: action skip has no such parameter": volumes(
			"{action: {type: skip, parameters: {snapshotClass: gold}}}",
		),
		"volumePolicies[1].action.parameters.snapshotClass: 3 is not a text": volumes(
			"{action: {type: snapshot, parameters: {snapshotClass: 3}}}",
		),
		"volumePolicies[1].action.parameters.snapshotClass: it is empty, want": volumes(
			"{action: {type: snapshot, parameters: {snapshotClass: ''}}}",
		),
		`volumePolicies[1].action.parameters.dataMover: "vendor" is not supported, want velero`: volumes(
			"{action: {type: snapshot, parameters: {dataMover: vendor}}}",
		),
		"cannot unmarshal array into Go struct field volumeConditions.volumePolicies": volumes(
			"{action: {type: skip}, conditions: {pvcLabels: [a]}}",
		),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(configMap(document))
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "resource policy in config map velero/policy: ")
		})
	}
}

// FuzzParse checks that no document makes Parse panic, and that the filters of an accepted document compile.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "version: v1", "version: v1\nincludeExcludePolicy: {includedClusterScopedResources: [a, 'b*'], " +
			"excludedClusterScopedResources: [c]}",
		"version: v1\nvolumePolicies: [{conditions: {capacity: '1,2Gi', csi: {}}, action: {type: skip}}]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		got, err := Parse(configMap(document))
		if err != nil || got.Resources == nil {
			return
		}
		_, err = filter.NewNames(got.Resources.IncludedClusterScoped, got.Resources.ExcludedClusterScoped)
		require.NoError(t, err)
		_, err = filter.NewNames(got.Resources.IncludedNamespaced, got.Resources.ExcludedNamespaced)
		require.NoError(t, err)
	})
}

func TestPolicyOfARestoreHasOnlyFiltersPerNamespaceAndKind(t *testing.T) {
	t.Parallel()
	got, err := ParseForRestore(configMap("version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: " +
		"[{kinds: [Pod]}]}]"))
	require.NoError(t, err)
	require.False(t, got.Rules.Empty())
	for want, document := range map[string]string{
		"resource policy in config map velero/policy: volumePolicies: they are for backups":    "version: v1\nvolumePolicies: [{action: {type: skip}}]",
		"resource policy in config map velero/policy: includeExcludePolicy: it is for backups": "version: v1\nincludeExcludePolicy: {includedNamespaceScopedResources: [pods]}",
		`resource policy in config map velero/policy: version: "" is not supported, want v1`:   "",
	} {
		_, err := ParseForRestore(configMap(document))
		require.ErrorContains(t, err, want)
	}
}

func TestParametersOfTheActionSnapshot(t *testing.T) {
	t.Parallel()
	got, err := Parse(configMap(`
version: v1
volumePolicies:
- {conditions: {pvcLabels: {tier: gold}}, action: {type: snapshot, parameters: {snapshotClass: fast, dataMover: velero-fs}}}
- {action: {type: custom, parameters: {snapshotClass: 3, of: the plugin}}}
`))
	require.NoError(t, err)
	require.Empty(t, got.Warnings)
	require.True(t, got.VolumePolicies.NamesMover())
	claim := new(corev1.PersistentVolumeClaim)
	require.Empty(t, got.VolumePolicies.SnapshotClass(Volume{Claim: claim}))
	claim.Labels = map[string]string{"tier": "gold"}
	require.Equal(t, "fast", got.VolumePolicies.SnapshotClass(Volume{Claim: claim}))
}
