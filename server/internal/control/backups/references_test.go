package backups

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/server/internal/spec/resourcepolicy"
)

func TestResourcePolicyIsReadBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"),
		controllertest.NewConfigMap("lists", map[string]string{"p": "version: v1\nincludeExcludePolicy: " +
			"{excludedNamespaceScopedResources: [secrets]}"}),
		controllertest.NewConfigMap("volumes",
			map[string]string{"p": "version: v1\nvolumePolicies: [{action: {type: skip}}]"}),
		controllertest.NewConfigMap("star", map[string]string{"p": "version: v1\nincludeExcludePolicy: " +
			"{includedClusterScopedResources: ['*']}"}),
	)
	for name, tt := range map[string]struct {
		policy string
		old    []string // includedResources
		want   string   // problem
		rules  *resourcepolicy.Policy
	}{
		"none": {},
		"lists": {policy: "lists",
			rules: &resourcepolicy.Policy{Resources: &filter.ScopedLists{ExcludedNamespaced: []string{"secrets"}}}},
		"lists-and-old-filters": {policy: "lists", old: []string{"pods"}, want: "the filters of resources in config map " +
			c.Namespace + "/lists cannot be used together with includedResources"},
		"volumes-and-old-filters": {policy: "volumes", old: []string{"pods"},
			rules: volumeRules(t, "{action: {type: skip}}")},
		"star": {policy: "star", want: "spec.resourcePolicy: resource policy in config map " +
			c.Namespace + "/star: includeExcludePolicy.includedClusterScopedResources: * is not allowed"},
		"missing": {policy: "lost", want: "spec.resourcePolicy: config map " + c.Namespace +
			"/lost does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewBackup(name, controllertest.InPhase(velerov1.BackupPhaseReadyToStart),
				func(b *velerov1.Backup) {
					b.Spec.IncludedResources = tt.old
					if tt.policy != "" {
						b.Spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: tt.policy}
					}
				})
			c.Add(t, b)
			active := run.NewRuns(run.RunsOptions{Kind: "backup", Lost: t.Context()}).Begin(t.Context(), b.UID)
			defer active.End()
			found, err := newBackups(c).start(t.Context(), active, b)
			require.NoError(t, err)
			stored := c.Backup(t, name)
			require.NotContains(t, stored.Spec.ExcludedNamespaceScopedResources, "secrets",
				"the policy is not written into the spec")
			if tt.want != "" {
				require.Equal(t, velerov1.BackupPhaseFailedValidation, stored.Status.Phase)
				require.Len(t, stored.Status.ValidationErrors, 1)
				require.Contains(t, stored.Status.ValidationErrors[0], tt.want)
				return
			}
			require.Equal(t, velerov1.BackupPhaseInProgress, stored.Status.Phase)
			require.Equal(t, tt.rules, found.policy)
		})
	}
}

// volumeRules returns a policy with rules for volumes only.
func volumeRules(t *testing.T, rules string) *resourcepolicy.Policy {
	t.Helper()
	policy, err := resourcepolicy.Parse(&corev1.ConfigMap{Data: map[string]string{"p": "version: v1\nvolumePolicies: [" +
		rules + "]"}})
	require.NoError(t, err)
	return policy
}

// TestGlobalVolumePoliciesAreReadForEachBackup is --global-backup-volume-policies-configmap.
func TestGlobalVolumePoliciesAreReadForEachBackup(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, controllertest.NewLocation("default"),
		controllertest.NewConfigMap("global", map[string]string{"p": "version: v1\nvolumePolicies: [{action: {type: " +
			"skip}}]\nincludeExcludePolicy: {excludedNamespaceScopedResources: [secrets]}"}),
		controllertest.NewConfigMap("own", map[string]string{"p": "version: v1\nvolumePolicies: [{action: {type: " +
			"snapshot}}, {action: {type: skip}}]"}),
	)
	for name, tt := range map[string]struct {
		global, own string
		want        string // problem
		rules       *resourcepolicy.Policy
	}{
		"none":        {},
		"global-only": {global: "global", rules: volumeRules(t, "{action: {type: skip}}")},
		"both": {global: "global", own: "own",
			rules: volumeRules(t, "{action: {type: snapshot}}, {action: {type: skip}}, {action: {type: skip}}")},
		"lost": {global: "lost", own: "own", want: "flag --global-backup-volume-policies-configmap of the server: " +
			"config map " + c.Namespace + "/lost does not exist; create it, or name another"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBackups(c)
			r.Defaults.GlobalVolumePolicies = tt.global
			b := controllertest.NewBackup(name, func(b *velerov1.Backup) {
				b.Namespace = c.Namespace
				if tt.own != "" {
					b.Spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: tt.own}
				}
			})
			rules, problems, err := r.policy(t.Context(), b)
			require.NoError(t, err)
			if tt.want != "" {
				require.Equal(t, []string{tt.want}, problems)
				return
			}
			require.Empty(t, problems)
			require.Equal(t, tt.rules, rules, "its filters of resources are ignored")
			require.Equal(t, tt.global, b.Annotations["velero.io/global-backup-volume-policy-configmap"])
		})
	}
}
