package restore

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

func (c *cluster) run(req Request) *Result {
	c.t.Helper()
	req.Log, req.Graph = testLog(c.t), graphOf(req.Archive)
	result, err := Run(c.t.Context(), Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero,
		Discovery: helperFor(c.t, c.config), Options: testOptions()},
		req)
	require.NoError(c.t, err)
	return result
}

func TestRulesOfThePolicyLimitWhatIsRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := unique(t, "rules") + "-"
	app, err := labels.Parse("app=web")
	require.NoError(t, err)
	class, err := filter.NewNames([]string{"none-*"}, nil)
	require.NoError(t, err)
	result := c.run(Request{
		Restore: newRestore(p+"r",
			func(s *velerov1.RestoreSpec) { s.ExcludedResources = []string{"nodes", "events", "secrets"} }),
		Archive: pack(t, filterWorld(p)...),
		Rules: filter.RuleLists{
			Cluster: []filter.Rule{{Kinds: []string{"StorageClass"}, Names: class}},
			Namespaces: []filter.NamespaceRules{
				{Namespaces: []string{p + "team-*"},
					Rules: []filter.Rule{{Kinds: []string{"ConfigMap", "Secret"}, Selectors: []labels.Selector{app}}}},
				{Namespaces: []string{p + "ops"}, Rules: []filter.Rule{{Kinds: []string{"serviceaccounts"}}}},
			},
		},
	})
	require.Equal(t, map[string][]string{
		"v1/Namespace":      {p + "ops(created)", p + "team-a(created)", p + "team-b(created)", p + "team-c(created)"},
		"v1/ConfigMap":      {p + "team-a/cm-a(created)"},
		"v1/ServiceAccount": {p + "ops/runner(created)"},
		"rbac.authorization.k8s.io/v1/ClusterRole": {p + "role(created)"},
	}, lists(result), "neither what no rule names nor what the spec excludes")
	require.Empty(t, result.Results.Errors.Count())
}

// TestActionInsistsOnAdditionalItems tests Velero's annotation restore.velero.io/must-include-additional-items.
func TestActionInsistsOnAdditionalItems(t *testing.T) {
	t.Parallel()
	for value, restored := range map[string]bool{"true": true, "false": false} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			ns, other := unique(t, "must"), unique(t, "must-other")
			config, secret := configMap(ns, "settings", nil), in("secrets", "v1", "Secret", other, "password", nil)
			action := &fakeAction{name: "example.io/must",
				applies: framework.ResourceSelector{IncludedResources: []string{"configmaps"}}}
			action.execute = func(input restoreitemaction.Input) (*restoreitemaction.Result, error) {
				var o obj
				if err := json.Unmarshal(input.Item, &o); err != nil {
					return nil, err
				}
				o["metadata"].(obj)["annotations"] = obj{velerov1.MustIncludeAdditionalItemsRestoreAnnotation: value, "kept": "yes"}
				item, err := json.Marshal(o)
				return &restoreitemaction.Result{Item: item,
					AdditionalItems: []framework.ResourceIdentifier{{Resource: "secrets", Namespace: other, Name: "password"}}}, err
			}
			c.mustRestore(pack(t, namespaceThing(ns, nil), namespaceThing(other, nil), config, secret),
				newRestore(ns, func(s *velerov1.RestoreSpec) {
					s.IncludedNamespaces, s.ExcludedResources = []string{ns}, []string{"secrets"}
				}), action)
			require.Equal(t, obj{"kept": "yes"}, dig(c.live(config), "metadata", "annotations"))
			require.Equal(t, restored, c.live(secret) != nil)
		})
	}
}

func TestVersionOfTheArchiveIsChosen(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "versions")
	scalers := schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}
	// The cluster of the backup preferred v1; the cluster of the tests prefers v2.
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, time.Unix(0, 0))
	require.NoError(t, err)
	write := func(version string, preferred bool, name string) {
		one := in(scalers.String(), "autoscaling/"+version, "HorizontalPodAutoscaler", ns, name, obj{
			"metadata": obj{"labels": obj{"from": version}},
			"spec":     obj{"maxReplicas": 3, "scaleTargetRef": obj{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}},
		})
		require.NoError(t, w.Item(scalers, version, preferred, ns, name, one.body))
	}
	write("v1", true, "both")
	write("v1", true, "one")
	write("v2", false, "both")
	require.NoError(t, w.Item(schema.GroupResource{Resource: "namespaces"}, "v1", true, "", ns,
		namespaceThing(ns, nil).body))
	require.NoError(t, w.Close())
	for name, tt := range map[string]struct {
		open    func() (*archive.Archive, error)
		user    plan.VersionPriorities
		version string
	}{
		"the cluster's": {open: func() (*archive.Archive, error) {
			return archive.Open(t.Context(), bytes.NewReader(out.Bytes()), t.TempDir(), archive.Options{AllVersions: true})
		}, version: "v2"},
		"the user's": {
			open: func() (*archive.Archive, error) {
				return archive.Open(t.Context(), bytes.NewReader(out.Bytes()), t.TempDir(), archive.Options{AllVersions: true})
			},
			user: plan.VersionPriorities{scalers.String(): {"v9", "v1"}}, version: "v1",
		},
		"without the feature": {open: func() (*archive.Archive, error) {
			return archive.Open(t.Context(), bytes.NewReader(out.Bytes()), t.TempDir(), archive.Options{})
		}, version: "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{t: t, config: c.config, client: c.client, host: c.host}
			backup, err := tt.open()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, backup.Close()) })
			into := unique(t, "into")
			c.run(Request{Archive: backup, Versions: tt.user,
				Restore: newRestore(into, func(s *velerov1.RestoreSpec) { s.NamespaceMapping = map[string]string{ns: into} })})
			for object, want := range map[string]string{"both": tt.version, "one": "v1"} {
				live := c.live(in(scalers.String(), "autoscaling/v2", "HorizontalPodAutoscaler", into, object, nil))
				require.Equal(t, want, dig(live, "metadata", "labels", "from"), object)
			}
		})
	}
}
