package restores

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
)

func TestReferencesOfARestoreAreReadBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"),
		controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart), func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseCompleted
		}),
		controllertest.NewConfigMap("rules", map[string]string{"rules": "version: v1\nresourceModifierRules: [{conditions: " +
			"{groupResource: pods}, mergePatches: [{patchData: '{a: b}'}]}]"}),
		controllertest.NewConfigMap("bad", map[string]string{"rules": "version: v1\nresourceModifierRules: [{conditions: " +
			"{groupResource: pods}}]"}),
		controllertest.NewConfigMap("two", map[string]string{"a": "", "b": ""}),
		controllertest.NewConfigMap("policy", map[string]string{"p": "version: v1\nnamespacedFilterPolicies: [{namespaces: " +
			"[shop], resourceFilters: [{kinds: [Pod]}]}]"}),
		controllertest.NewConfigMap("volumes",
			map[string]string{"p": "version: v1\nvolumePolicies: [{action: {type: skip}}]"}),
		controllertest.NewConfigMap("enableapigroupversions",
			map[string]string{"restoreResourcesVersionPriority": "a.b=v1,v2\nnonsense"}),
	)
	ref := func(kind, name string) *velerov1.TypedLocalObjectReference {
		return &velerov1.TypedLocalObjectReference{Kind: kind, Name: name}
	}
	for name, tt := range map[string]struct {
		modifier, policy *velerov1.TypedLocalObjectReference
		want             string // problem
	}{
		"none":           {},
		"good modifiers": {modifier: ref("cOnFigMap", "rules")},
		"good policy":    {policy: ref("configmap", "policy")},
		"bad modifiers": {modifier: ref("configmap", "bad"),
			want: "spec.resourceModifier: resource modifiers in config map " + c.Namespace +
				"/bad: resourceModifierRules[0]: it has no patches, want exactly one of patches, mergePatches and " +
				"strategicPatches"},
		"two keys": {modifier: ref("configmap", "two"), want: "/two: it has 2 keys in data (a, b), want exactly one"},
		"missing modifiers": {modifier: ref("configmap", "lost"),
			want: "spec.resourceModifier: config map " + c.Namespace + "/lost does not exist; create it, or name another"},
		"modifiers of another kind": {modifier: ref("Secret", "rules"),
			want: `resource modifier of kind "Secret" is not supported, want ConfigMap`},
		"volumes": {policy: ref("configmap", "volumes"),
			want: "spec.resourcePolicy: resource policy in config map " + c.Namespace +
				"/volumes: volumePolicies: they are for backups"},
		"missing policy": {policy: ref("configmap", "lost"),
			want: "spec.resourcePolicy: config map " + c.Namespace + "/lost does not exist; create it, or name another"},
		"policy of another kind": {policy: ref("Secret", "policy"),
			want: `resource policy of kind "Secret" is not supported, want ConfigMap`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "r"},
				Spec: velerov1.RestoreSpec{BackupName: "b", ResourceModifier: tt.modifier, ResourcePolicy: tt.policy}}
			r := &Controller{Cluster: c.Cluster, ItemOperationTimeout: time.Hour, AllVersions: true, Log: hclog.NewNullLogger()}
			src, err := r.prepare(t.Context(), object)
			require.NoError(t, err)
			require.Equal(t, tt.modifier != nil && tt.want == "", src.modifiers != nil)
			require.Equal(t, tt.policy != nil && tt.want == "", src.policy != nil)
			require.Equal(t, plan.VersionPriorities{"a.b": {"v1", "v2"}}, src.versions)
			if tt.want == "" {
				require.Empty(t, object.Status.ValidationErrors)
				return
			}
			require.Len(t, object.Status.ValidationErrors, 1)
			require.Contains(t, object.Status.ValidationErrors[0], tt.want)
		})
	}
}

func TestDefaultModifiersOfARestore(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	rules := func(kind string) map[string]string {
		return map[string]string{"rules": "version: v1\nresourceModifierRules: [{conditions: {groupResource: " + kind +
			"}, mergePatches: [{patchData: '{a: b}'}]}]"}
	}
	c.Add(t, controllertest.NewLocation("default"),
		controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart), func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseCompleted
		}),
		controllertest.NewConfigMap("for-all", rules("pods")), controllertest.NewConfigMap("own", rules("secrets")))
	prepared := func(byDefault string, spec velerov1.RestoreSpec) (*velerov1.Restore, source) {
		t.Helper()
		spec.BackupName = "b"
		object := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "r"}, Spec: spec}
		r := &Controller{Cluster: c.Cluster, DefaultModifiers: byDefault, ItemOperationTimeout: time.Hour,
			Log: hclog.NewNullLogger()}
		src, err := r.prepare(t.Context(), object)
		require.NoError(t, err)
		return object, src
	}
	own := velerov1.RestoreSpec{ResourceModifier: &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "own"}}
	_, ofServer := prepared("for-all", velerov1.RestoreSpec{})
	require.Contains(t, fmt.Sprintf("%+v", ofServer.modifiers), "resource:pods")
	_, both := prepared("for-all", own)
	require.Contains(t, fmt.Sprintf("%+v", both.modifiers), "resource:secrets", "those of the spec count")
	object, without := prepared("for-all", velerov1.RestoreSpec{SkipDefaultResourceModifier: new(true)})
	require.Empty(t, object.Status.ValidationErrors)
	require.Nil(t, without.modifiers)
	object, _ = prepared("lost", velerov1.RestoreSpec{})
	require.Equal(t, []string{"flag --default-resource-modifier-configmap of the server: config map " + c.Namespace +
		"/lost does not exist; create it, or name another"}, object.Status.ValidationErrors)
}
