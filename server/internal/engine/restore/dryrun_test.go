package restore

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// dryRun runs a dry run of a restore. Actions whose names start with "safe" are called.
func (c *cluster) dryRun(
	backup *archive.Archive, r *velerov1.Restore, actions ...restoreitemaction.Action,
) ([]outcome.Item, *Result, map[string]int) {
	c.t.Helper()
	called := dryrun.NewActions(func(action string) bool { return strings.HasPrefix(action, "safe") })
	file, err := outcome.NewSpool(c.t.TempDir())
	require.NoError(c.t, err)
	defer file.Remove()
	result, err := Run(c.t.Context(), Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero,
		Discovery: helperFor(c.t, c.config), Options: testOptions()},
		Request{Restore: r, Archive: backup, Graph: graphOf(backup), Actions: actions, Log: testLog(c.t),
			DryRun: &DryRun{Actions: called}, Account: NewAccount(file)})
	require.NoError(c.t, err)
	var outcomes []outcome.Item
	require.NoError(c.t, file.Items(func(o outcome.Item) error {
		outcomes = append(outcomes, o)
		return nil
	}))
	return outcomes, result, called.NotCalled()
}

// listed returns outcomes in the form in which a restore lists its results. Outcomes of items that are not listed
// there are omitted.
func listed(outcomes []outcome.Item, in map[string][]string) map[string][]string {
	list := map[string][]string{}
	for _, o := range outcomes {
		action := string(o.Outcome)
		if o.Outcome == outcome.Conflict || o.Outcome == outcome.Refused {
			action = actionFailed.String()
		}
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		kind := o.APIVersion + "/" + o.Kind
		entry := name + "(" + action + ")"
		if action != actionSkipped.String() || slices.Contains(in[kind], entry) {
			list[kind] = append(list[kind], entry)
		}
	}
	for kind := range list {
		slices.Sort(list[kind])
	}
	return list
}

func outcomeOf(t *testing.T, outcomes []outcome.Item, resource, name string) outcome.Item {
	t.Helper()
	i := slices.IndexFunc(outcomes, func(o outcome.Item) bool { return o.Resource == resource && o.Name == name })
	require.GreaterOrEqual(t, i, 0, "%s %s in %+v", resource, name, outcomes)
	return outcomes[i]
}

// TestAcceptManifest_DryRun restores items of all kinds that a restore distinguishes, after a dry run of the same
// restore.
func TestAcceptManifest_DryRun(t *testing.T) {
	t.Parallel()
	for _, policy := range []velerov1.PolicyType{velerov1.PolicyTypeNone, velerov1.PolicyTypeUpdate} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			ns, missing := unique(t, "here"), unique(t, "missing")
			c.create(namespaceThing(ns, nil), "test")
			c.create(in("resourcequotas", "v1", "ResourceQuota", ns, "q", obj{"spec": obj{"hard": obj{"count/secrets": "0"}}}),
				"test")
			c.must(http.MethodPatch, "/api/v1/namespaces/"+ns+"/resourcequotas/q/status", kubeapi.MergePatch,
				[]byte(`{"status":{"hard":{"count/secrets":"0"},"used":{"count/secrets":"0"}}}`))
			c.newWebhook(t, unique(t, "refuses")+".example.com", ns,
				newWebhookServer(t, func(name string) bool { return name != "unwanted" }), nil)
			unwanted, secret := configMap(ns, "unwanted", nil), in("secrets", "v1", "Secret", ns, "s", nil)
			c.awaitRefusal(unwanted, "not wanted here")
			c.awaitRefusal(secret, "exceeded quota")

			group := "x" + strings.ReplaceAll(ns, "-", "") + ".example.com"
			definition := in("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io/v1",
				"CustomResourceDefinition", "", "gadgets."+group, obj{"spec": obj{
					"group": group, "scope": "Namespaced", "names": obj{"plural": "gadgets", "kind": "Gadget"},
					"versions": []obj{
						{"name": "v1beta1", "served": true, "storage": false, "schema": obj{"openAPIV3Schema": obj{"type": "object"}}},
						{"name": "v1", "served": true, "storage": true, "schema": obj{"openAPIV3Schema": obj{"type": "object"}}},
					},
				}})
			t.Cleanup(func() { c.call(http.MethodDelete, pathOf(definition, true), "", nil) })

			equal, differs, fixed := configMap(ns, "equal", nil), configMap(ns, "differs", nil), configMap(ns, "fixed", nil)
			for _, one := range []thing{equal, differs, fixed} {
				c.create(one, "test")
			}
			things := []thing{c.asThing(equal), c.asThing(differs), c.asThing(fixed)}
			c.must(http.MethodPatch, pathOf(differs, true), kubeapi.MergePatch, []byte(`{"data":{"a":"2"}}`))
			c.must(http.MethodPatch, pathOf(fixed, true), kubeapi.MergePatch, []byte(`{"data":{"a":"2"},"immutable":true}`))
			c.create(in("serviceaccounts", "v1", "ServiceAccount", ns, "merged", nil), "test")
			pod := func(name string, spec, status obj) thing {
				spec["containers"] = []obj{{"name": "c", "image": "i"}}
				return in("pods", "v1", "Pod", ns, name, obj{"spec": spec, "status": status})
			}
			things = append(things, unwanted, secret, definition,
				namespaceThing(ns, nil), namespaceThing(missing, labelled(obj{"a": "b"})),
				configMap(ns, "absent", nil), configMap(missing, "elsewhere", nil), configMap(ns, "not valid", nil),
				configMap(ns, "left-by-action", nil), configMap(ns, "additional", nil),
				in("serviceaccounts", "v1", "ServiceAccount", ns, "merged", labelled(obj{"a": "b"})),
				in("serviceaccounts", "v1", "ServiceAccount", ns, "robot", nil),
				pod("of-robot", obj{"serviceAccountName": "robot"}, nil), pod("of-nobody", obj{"serviceAccountName": "nobody"},
					nil),
				pod("done", obj{}, obj{"phase": "Succeeded"}),
				in("gadgets."+group, group+"/v1", "Gadget", ns, "g", obj{"spec": obj{"size": 3}}),
				in("toys.nowhere.example.com", "nowhere.example.com/v1", "Toy", ns, "t", nil),
			)
			backup := pack(t, things...)
			maps := framework.ResourceSelector{IncludedResources: []string{"configmaps"}, IncludedNamespaces: []string{ns}}
			safe := &fakeAction{name: "safe/action", applies: maps,
				execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
					result := &restoreitemaction.Result{Item: in.Item, SkipRestore: strings.Contains(string(in.Item),
						"left-by-action")}
					if strings.Contains(string(in.Item), `"absent"`) {
						result.WaitForAdditionalItems = true
						result.AdditionalItems = []framework.ResourceIdentifier{{Resource: "configmaps", Namespace: ns,
							Name: "additional"}}
					}
					return result, nil
				}}
			effects := &fakeAction{name: "unsafe/action", applies: maps}
			restore := newRestore(unique(t, "r"), func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = policy })

			c.await(in("serviceaccounts", "v1", "ServiceAccount", ns, "default", nil)) // which a controller makes
			c.await(configMap(ns, "kube-root-ca.crt", nil))
			before := c.everything(ns)
			outcomes, said, notCalled := c.dryRun(backup, restore, safe, effects)
			require.Equal(t, before, c.everything(ns), "a dry run changes nothing")
			require.Nil(t, c.live(namespaceThing(missing, nil)))
			require.Nil(t, c.live(definition))
			require.Empty(t, effects.saw)
			require.Equal(t, map[string]int{"unsafe/action": 7}, notCalled)

			done := c.mustRestore(backup, restore, safe, effects)
			require.Equal(t, lists(done), listed(outcomes, lists(done)))
			require.Equal(t, lists(done), lists(said))
			require.Len(t, effects.saw, 7)

			differing, immutable := outcome.Conflict, outcome.Conflict
			if policy == velerov1.PolicyTypeUpdate {
				differing, immutable = outcome.Updated, outcome.Refused
			}
			for _, want := range []struct {
				resource, name string
				verdict        outcome.Verdict
				reason         string
				unchecked      bool
			}{
				{"configmaps", "absent", outcome.Created, "", false},
				{"configmaps", "additional", outcome.Created, "", false},
				{"configmaps", "equal", outcome.Skipped, "in the cluster as it is in the backup", false},
				{"configmaps", "differs", differing, "", false},
				{"configmaps", "fixed", immutable, "", false},
				{"configmaps", "unwanted", outcome.Refused, "not wanted here", false},
				{"configmaps", "not valid", outcome.Refused, "metadata.name", false},
				{"configmaps", "left-by-action", outcome.Skipped, "safe/action skips it", false},
				{"secrets", "s", outcome.Refused, "exceeded quota", false},
				{"namespaces", missing, outcome.Created, "", false},
				{"configmaps", "elsewhere", outcome.Created, "its namespace would be created", true},
				{"serviceaccounts", "merged", outcome.Updated, "", false},
				{"serviceaccounts", "robot", outcome.Created, "", false},
				{"pods", "of-robot", outcome.Created, `serviceaccount "robot" not found`, true},
				{"pods", "of-nobody", outcome.Refused, `serviceaccount "nobody" not found`, false},
				{"pods", "done", outcome.Skipped, "it has completed", false},
				{"gadgets." + group, "g", outcome.Created, "its definition would be created", true},
				{"toys.nowhere.example.com", "t", outcome.Failed, "does not serve toys", false},
			} {
				got := outcomeOf(t, outcomes, want.resource, want.name)
				require.Equal(t, want.verdict, got.Outcome, "%+v", got)
				require.Contains(t, got.Reason, want.reason)
				require.Equal(t, want.unchecked, got.Unchecked, "%+v", got)
			}
		})
	}
}

// everything returns the resource versions of the objects in a namespace.
func (c *cluster) everything(namespace string) map[string]any {
	c.t.Helper()
	all := map[string]any{}
	for _, resource := range []string{"configmaps", "secrets", "serviceaccounts", "pods"} {
		items, _ := c.get("/api/v1/namespaces/" + namespace + "/" + resource)["items"].([]any)
		for _, one := range items {
			all[resource+"/"+dig(one, "metadata", "name").(string)] = dig(one, "metadata", "resourceVersion")
		}
	}
	require.NotEmpty(c.t, slices.Collect(maps.Keys(all)))
	return all
}
