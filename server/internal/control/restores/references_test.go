package restores

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
)

func TestResourceModifiersAreReadBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"),
		controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart), func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseCompleted
		}),
		controllertest.NewConfigMap("good", map[string]string{"rules": "version: v1\nresourceModifierRules: [{conditions: " +
			"{groupResource: pods}, mergePatches: [{patchData: '{a: b}'}]}]"}),
		controllertest.NewConfigMap("bad", map[string]string{"rules": "version: v1\nresourceModifierRules: [{conditions: " +
			"{groupResource: pods}}]"}),
		controllertest.NewConfigMap("two", map[string]string{"a": "", "b": ""}),
	)
	for name, tt := range map[string]struct {
		ref  *velerov1.TypedLocalObjectReference
		want string // problem
	}{
		"none": {nil, ""},
		"good": {&velerov1.TypedLocalObjectReference{Kind: "cOnFigMap", Name: "good"}, ""},
		"bad": {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "bad"},
			"spec.resourceModifier: resource modifiers in config map " + c.Namespace +
				"/bad: resourceModifierRules[0]: it has no patches, want exactly one of patches, mergePatches and strategicPatches"},
		"two keys": {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "two"},
			"/two: it has 2 keys in data (a, b), want exactly one"},
		"missing": {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "lost"},
			"spec.resourceModifier: config map " + c.Namespace + "/lost does not exist; create it, or name another"},
		"another kind": {&velerov1.TypedLocalObjectReference{Kind: "Secret", Name: "good"},
			`resource modifier of kind "Secret" is not supported, want ConfigMap`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "r"},
				Spec: velerov1.RestoreSpec{BackupName: "b", ResourceModifier: tt.ref}}
			src, err := (&Controller{Cluster: c.Cluster, ItemOperationTimeout: time.Hour}).prepare(t.Context(), object)
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

func TestResourcePolicyOfARestoreIsReadBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"),
		controllertest.NewBackup("b", controllertest.InPhase(velerov1.BackupPhaseReadyToStart), func(b *velerov1.Backup) {
			b.Spec.StorageLocation, b.Status.Phase = "default", velerov1.BackupPhaseCompleted
		}),
		controllertest.NewConfigMap("good", map[string]string{"p": "version: v1\nnamespacedFilterPolicies: [{namespaces: " +
			"[shop], resourceFilters: [{kinds: [Pod]}]}]"}),
		controllertest.NewConfigMap("volumes",
			map[string]string{"p": "version: v1\nvolumePolicies: [{action: {type: skip}}]"}),
		controllertest.NewConfigMap("enableapigroupversions",
			map[string]string{"restoreResourcesVersionPriority": "a.b=v1,v2\nnonsense"}),
	)
	for name, tt := range map[string]struct {
		ref  *velerov1.TypedLocalObjectReference
		want string // problem
	}{
		"none": {nil, ""},
		"good": {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "good"}, ""},
		"volumes": {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "volumes"},
			"spec.resourcePolicy: resource policy in config map " + c.Namespace +
				"/volumes: volumePolicies: they are for backups"},
		"missing": {&velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "lost"},
			"spec.resourcePolicy: config map " + c.Namespace + "/lost does not exist; create it, or name another"},
		"another kind": {&velerov1.TypedLocalObjectReference{Kind: "Secret", Name: "good"},
			`resource policy of kind "Secret" is not supported, want ConfigMap`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "r"},
				Spec: velerov1.RestoreSpec{BackupName: "b", ResourcePolicy: tt.ref}}
			r := &Controller{Cluster: c.Cluster, ItemOperationTimeout: time.Hour, AllVersions: true, Log: hclog.NewNullLogger()}
			src, err := r.prepare(t.Context(), object)
			require.NoError(t, err)
			require.Equal(t, name == "good", src.policy != nil)
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
