package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/controllertest"
	"github.com/cleat-dev/cleat/server/filter"
	"github.com/cleat-dev/cleat/server/resourcepolicy"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

func TestResourceModifiersAreReadBeforeARestoreStarts(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"),
		controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart), func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseCompleted
		}),
		configMap("good", map[string]string{"rules": "version: v1\nresourceModifierRules: [{conditions: {groupResource: pods}, mergePatches: [{patchData: '{a: b}'}]}]"}),
		configMap("bad", map[string]string{"rules": "version: v1\nresourceModifierRules: [{conditions: {groupResource: pods}}]"}),
		configMap("two", map[string]string{"a": "", "b": ""}),
	)
	for name, tt := range map[string]struct {
		ref  *velerov1.TypedLocalObjectReference
		want string // problem
	}{
		"none":         {nil, ""},
		"good":         {&velerov1.TypedLocalObjectReference{Kind: "cOnFigMap", Name: "good"}, ""},
		"bad":          {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "bad"}, "spec.resourceModifier: resource modifiers in config map " + c.Namespace + "/bad: resourceModifierRules[0]: it has none, want exactly one of patches, mergePatches and strategicPatches"},
		"two keys":     {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "two"}, "/two: it has 2 keys in data (a, b), want exactly one"},
		"missing":      {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "lost"}, "spec.resourceModifier: config map " + c.Namespace + "/lost does not exist; create it, or name another"},
		"another kind": {&velerov1.TypedLocalObjectReference{Kind: "Secret", Name: "good"}, `resource modifier of kind "Secret" is not supported, want ConfigMap`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "r"}, Spec: velerov1.RestoreSpec{BackupName: "b", ResourceModifier: tt.ref}}
			src, err := (&Restores{Cluster: c.Cluster, ItemOperationTimeout: time.Hour}).prepare(t.Context(), object)
			require.NoError(t, err)
			require.Equal(t, name == "good", src.modifiers != nil)
			if tt.want == "" {
				require.Empty(t, object.Status.ValidationErrors)
				return
			}
			require.Len(t, object.Status.ValidationErrors, 1)
			require.Contains(t, object.Status.ValidationErrors[0], tt.want)
		})
	}
}

func TestAResourcePolicyIsReadBeforeABackupStarts(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"),
		configMap("lists", map[string]string{"p": "version: v1\nincludeExcludePolicy: {excludedNamespaceScopedResources: [secrets]}"}),
		configMap("volumes", map[string]string{"p": "version: v1\nvolumePolicies: [{action: {type: skip}}]"}),
		configMap("star", map[string]string{"p": "version: v1\nincludeExcludePolicy: {includedClusterScopedResources: ['*']}"}),
	)
	for name, tt := range map[string]struct {
		policy string
		old    []string // includedResources
		want   string   // problem
		rules  *resourcepolicy.Policy
	}{
		"none":                    {},
		"lists":                   {policy: "lists", rules: &resourcepolicy.Policy{Resources: &filter.ScopedLists{ExcludedNamespaced: []string{"secrets"}}}},
		"lists-and-old-filters":   {policy: "lists", old: []string{"pods"}, want: "the includeExcludePolicy in config map " + c.Namespace + "/lists cannot be used together with includedResources"},
		"volumes-and-old-filters": {policy: "volumes", old: []string{"pods"}, rules: &resourcepolicy.Policy{VolumePolicies: 1}},
		"star":                    {policy: "star", want: "spec.resourcePolicy: resource policy in config map " + c.Namespace + "/star: includeExcludePolicy.includedClusterScopedResources: * is not allowed"},
		"missing":                 {policy: "lost", want: "spec.resourcePolicy: config map " + c.Namespace + "/lost does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewBackup(name, controllertest.InPhase(velerov1.BackupPhaseReadyToStart), func(b *velerov1.Backup) {
				b.Spec.IncludedResources = tt.old
				if tt.policy != "" {
					b.Spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: tt.policy}
				}
			})
			c.Add(t, b)
			_, rules, err := newBackups(c).start(t.Context(), b)
			require.NoError(t, err)
			stored := c.Backup(t, name)
			require.NotContains(t, stored.Spec.ExcludedNamespaceScopedResources, "secrets", "the policy is not written into the spec")
			if tt.want != "" {
				require.Equal(t, velerov1.BackupPhaseFailedValidation, stored.Status.Phase)
				require.Len(t, stored.Status.ValidationErrors, 1)
				require.Contains(t, stored.Status.ValidationErrors[0], tt.want)
				return
			}
			require.Equal(t, velerov1.BackupPhaseInProgress, stored.Status.Phase)
			require.Equal(t, tt.rules, rules)
		})
	}
}
