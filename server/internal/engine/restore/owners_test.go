package restore

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// ownedBy adds an owner to a thing; the UID of each thing in a backup is made of its name.
func ownedBy(owned thing, owners ...obj) thing {
	return mergeMetadata(owned, obj{"ownerReferences": owners})
}

func mergeMetadata(one thing, more obj) thing {
	object := objectOf(one)
	meta, _ := object["metadata"].(obj)
	maps.Copy(meta, more)
	var err error
	if one.body, err = json.Marshal(object); err != nil {
		panic(err)
	}
	return one
}

func objectOf(one thing) (object obj) {
	if err := json.Unmarshal(one.body, &object); err != nil {
		panic(err)
	}
	return object
}

// ownerRef returns a reference to a thing as in the backup.
func ownerRef(one thing, more obj) obj {
	object := objectOf(one)
	ref := obj{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": one.name, "uid": backupUID(one)}
	maps.Copy(ref, more)
	return ref
}

func backupUID(one thing) string { return "uid-of-" + one.namespace + "-" + one.name }

// withUIDs gives each thing the UID that it had when it was backed up.
func withUIDs(things ...thing) []thing {
	for i := range things {
		things[i] = mergeMetadata(things[i], obj{"uid": backupUID(things[i])})
	}
	return things
}

// ownersOf returns the owners of a thing in the cluster as "Kind/name", after it has compared their UIDs with those in
// the cluster.
func (c *cluster) ownersOf(one thing, candidates ...thing) []string {
	c.t.Helper()
	live := c.live(one)
	require.NotNil(c.t, live, "%s/%s", one.namespace, one.name)
	uids := map[any]string{}
	for _, candidate := range candidates {
		if owner := c.live(candidate); owner != nil {
			uids[dig(owner, "metadata", "uid")] = owner["kind"].(string) + "/" + candidate.name
		}
	}
	var names []string
	refs, _ := dig(live, "metadata", "ownerReferences").([]any)
	for _, ref := range refs {
		name := dig(ref, "kind").(string) + "/" + dig(ref, "name").(string)
		require.Equal(c.t, name, uids[dig(ref, "uid")], "the UID is that of the owner in the cluster")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// counting counts the requests for each path that may change objects, and calls each, unless nil, before each request.
type counting struct {
	mu     sync.Mutex
	counts map[string]int
	each   func(n int) error
	n      int
}

func (c *counting) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			c.mu.Lock()
			c.n++
			c.counts[r.Method+" "+r.URL.Path]++
			n := c.n
			c.mu.Unlock()
			if c.each != nil {
				if err := c.each(n); err != nil {
					return nil, err
				}
			}
		}
		return next.RoundTrip(r)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// restoreChanged is restore with a change of the configuration and the request.
func (c *cluster) restoreChanged(
	ctx context.Context, backup *archive.Archive, r *velerov1.Restore, change func(*rest.Config, *Request),
) (*Result, error) {
	c.t.Helper()
	config := rest.CopyConfig(c.config)
	request := Request{Restore: r, Archive: backup, Graph: graphOf(backup), Log: testLog(c.t)}
	change(config, &request)
	return Run(ctx, Deps{Config: config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(c.t, c.config),
		Options: testOptions()}, request)
}

func withOwners(name string, change func(*velerov1.RestoreSpec)) *velerov1.Restore {
	r := newRestore(name, change)
	r.Annotations = map[string]string{velerov1.OwnerReferencesAnnotation: "true"}
	return r
}

func cronJob(ns, name string) thing {
	template := obj{"spec": obj{"restartPolicy": "Never", "containers": []obj{{"name": "c", "image": "i"}}}}
	return in("cronjobs.batch", "batch/v1", "CronJob", ns, name, obj{"spec": obj{"schedule": "0 0 * * *",
		"jobTemplate": obj{"spec": obj{"template": template}}}})
}

func job(ns, name string) thing {
	template := obj{"spec": obj{"restartPolicy": "Never", "containers": []obj{{"name": "c", "image": "i"}}}}
	return in("jobs.batch", "batch/v1", "Job", ns, name, obj{"spec": obj{"template": template}})
}

func role(ns, name string) thing {
	return in("roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "Role", ns, name, obj{"rules": []obj{}})
}

// family is a backup of objects that own each other, and the owners that each has after a restore.
type family struct {
	things []thing
	owners map[string][]string // by kind and name
}

func newFamily(ns string) family {
	parent, child, role := configMap(ns, "parent", nil), configMap(ns, "child", nil), role(ns, "a-role")
	account := in("serviceaccounts", "v1", "ServiceAccount", ns, "of-role", nil)
	cron, run := cronJob(ns, "cron"), job(ns, "run")
	set := in("replicasets.apps", "apps/v1", "ReplicaSet", ns, "set", obj{"spec": obj{"replicas": 1,
		"selector": obj{"matchLabels": obj{"a": "b"}}, "template": obj{"metadata": obj{"labels": obj{"a": "b"}},
			"spec": obj{"containers": []obj{{"name": "c", "image": "i"}}}}}})
	pod := in("pods", "v1", "Pod", ns, "of-set", obj{"metadata": obj{"labels": obj{"a": "b"}},
		"spec": obj{"serviceAccountName": "of-role", "containers": []obj{{"name": "c", "image": "i"}}}})
	this, that := configMap(ns, "this", nil), configMap(ns, "that", nil)
	things := withUIDs(parent, ownedBy(child, ownerRef(parent, obj{"controller": true, "blockOwnerDeletion": true})),
		role, ownedBy(account, ownerRef(role, nil)), cron, ownedBy(run, ownerRef(cron, obj{"controller": true})),
		set, ownedBy(pod, ownerRef(set, obj{"controller": true})),
		ownedBy(this, ownerRef(that, nil)), ownedBy(that, ownerRef(this, nil)))
	return family{things: things, owners: map[string][]string{
		"child": {"ConfigMap/parent"}, "of-role": {"Role/a-role"}, "run": {"CronJob/cron"}, "of-set": {"ReplicaSet/set"},
		"this": {"ConfigMap/that"}, "that": {"ConfigMap/this"}, "parent": nil, "a-role": nil, "cron": nil, "set": nil,
	}}
}

// check compares the owners in the cluster with those that the family must have.
func (f family) check(t *testing.T, c *cluster) {
	t.Helper()
	for _, one := range f.things {
		if one.name == "of-set" {
			require.Eventually(t, func() bool { return len(c.ownersOf(one, f.things...)) > 0 }, time.Minute,
				50*time.Millisecond, "the controller of the set adopts it")
		}
		require.Equal(t, f.owners[one.name], c.ownersOf(one, f.things...), one.name)
	}
}

// TestAcceptGraph_Owners restores objects with their owners.
func TestAcceptGraph_Owners(t *testing.T) {
	t.Parallel()
	t.Run("of the same backup", func(t *testing.T) {
		t.Parallel()
		c, ns := newCluster(t), unique(t, "owners")
		f, wire := newFamily(ns), &counting{counts: map[string]int{}}
		result, err := c.restoreChanged(t.Context(), pack(t, f.things...), withOwners("r", nil),
			func(config *rest.Config, _ *Request) { config.WrapTransport = wire.wrap })
		require.NoError(t, err)
		require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
		f.check(t, c)
		require.Equal(t, true, dig(dig(c.live(f.things[1]), "metadata", "ownerReferences").([]any)[0], "blockOwnerDeletion"))
		for path, n := range wire.counts { // a second request is for owners that came later, and only those
			late := slices.ContainsFunc([]string{"/run", "/this", "/that", "/child"}, func(name string) bool {
				return strings.HasSuffix(path, ns+"/configmaps"+name) || strings.HasSuffix(path, "/jobs"+name)
			})
			require.False(t, strings.HasPrefix(path, "PATCH") && !late, "%s: %d requests", path, n)
		}

		without := newFamily(unique(t, "without"))
		result = c.mustRestore(pack(t, without.things...), newRestore("r", nil))
		require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
		without.owners = map[string][]string{"of-set": {"ReplicaSet/set"}}
		without.check(t, c)
	})
	t.Run("after a kill at each request", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		for n := 1; ; n++ {
			f := newFamily(unique(t, "kill"))
			backup, killed := pack(t, f.things...), errors.New("killed")
			ctx, kill := context.WithCancelCause(t.Context())
			wire := &counting{counts: map[string]int{}, each: func(at int) error {
				if at < n {
					return nil
				}
				kill(killed)
				return killed
			}}
			_, err := c.restoreChanged(ctx, backup, withOwners("r", nil),
				func(config *rest.Config, _ *Request) { config.WrapTransport = wire.wrap })
			result, again := c.restoreChanged(t.Context(), backup, withOwners("r", nil),
				func(_ *rest.Config, r *Request) { r.Resumed = true })
			require.NoError(t, again)
			require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%d: %+v", n, result.Results)
			f.check(t, c)
			if err == nil {
				require.Greater(t, n, len(f.things))
				return
			}
			require.ErrorIs(t, err, killed)
		}
	})
	t.Run("in the cluster", func(t *testing.T) {
		t.Parallel()
		c, ns := newCluster(t), unique(t, "cluster")
		c.create(namespaceThing(ns, nil), "test")
		owner, existing := configMap(ns, "owner", nil), configMap(ns, "existing", nil)
		c.create(owner, "test")
		c.create(existing, "test")
		things := withUIDs(ownedBy(configMap(ns, "owned", nil), ownerRef(owner, nil)),
			ownedBy(existing, ownerRef(owner, nil)))
		result := c.mustRestore(pack(t, things...), withOwners("r", nil))
		require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
		require.Equal(t, []string{"ConfigMap/owner"}, c.ownersOf(things[0], owner))
		require.Empty(t, c.ownersOf(existing, owner), "it exists, and is not updated")
		result = c.mustRestore(pack(t, things...), withOwners("r2", func(s *velerov1.RestoreSpec) {
			s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate
		}))
		require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
		require.Equal(t, []string{"ConfigMap/owner"}, c.ownersOf(existing, owner))
		require.Contains(t, entries(result, "v1/ConfigMap"), ns+"/existing(updated)")
	})
	t.Run("that garbage collection would not find", func(t *testing.T) {
		t.Parallel()
		c, ns, other := newCluster(t), unique(t, "gc"), unique(t, "other")
		for _, name := range []string{ns, other} {
			c.create(namespaceThing(name, nil), "test")
		}
		elsewhere, gone, here := configMap(other, "elsewhere", nil), configMap(ns, "gone", nil), configMap(ns, "here", nil)
		going := configMap(ns, "going", obj{"metadata": obj{"finalizers": []string{"example.com/keep"}}})
		c.create(going, "test")
		c.must(http.MethodDelete, pathOf(going, true), "", nil)
		t.Cleanup(func() {
			c.call(http.MethodPatch, pathOf(going, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
		})
		reader := in("clusterroles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRole", "", ns,
			obj{"rules": []obj{}})
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(reader, true), "", nil) })
		foreign := obj{"apiVersion": "example.com/v1", "kind": "Toy", "name": "t", "uid": "u"}
		things := withUIDs(elsewhere, here,
			ownedBy(configMap(ns, "a", nil), ownerRef(gone, nil)), ownedBy(configMap(ns, "b", nil), ownerRef(elsewhere, nil)),
			ownedBy(reader, ownerRef(here, nil)), ownedBy(configMap(ns, "c", nil), ownerRef(here, obj{"uid": "another"})),
			ownedBy(configMap(ns, "d", nil), foreign), ownedBy(configMap(ns, "e", nil), ownerRef(going, nil)))
		backup := pack(t, things...)
		restore := withOwners("r", nil)
		_, said, _ := c.dryRun(backup, restore)
		result := c.mustRestore(backup, restore)
		require.Equal(t, said.Results, result.Results, "a dry run says the same")
		require.Equal(t, []string{
			"configmaps/" + ns + "/a is restored without its owner ConfigMap gone: it is neither restored nor in the cluster, " +
				"and garbage collection would delete the object",
			"configmaps/" + ns + "/b is restored without its owner ConfigMap elsewhere: it is neither restored nor in the " +
				"cluster, and garbage collection would delete the object",
			"configmaps/" + ns + "/c is restored without its owner ConfigMap here: the object of that name in the backup is " +
				"another one: it has the UID " + backupUID(here) + ", and the owner another",
			"configmaps/" + ns + "/d is restored without its owner Toy t: the cluster does not serve example.com/v1",
			"configmaps/" + ns + "/e is restored without its owner ConfigMap going: it is being deleted, and garbage " +
				"collection would delete the object with it",
		}, result.Results.Warnings.Namespaces[ns])
		require.Equal(t, []string{"clusterroles.rbac.authorization.k8s.io/" + ns + " is restored without its owner " +
			"ConfigMap here: an owner in a namespace cannot own an object without one, which garbage collection would delete"},
			result.Results.Warnings.Cluster)
		for _, one := range things {
			require.Empty(t, c.ownersOf(one), one.name)
		}
	})
	t.Run("of an object that is refused", func(t *testing.T) {
		t.Parallel()
		c, ns := newCluster(t), unique(t, "refused")
		c.create(namespaceThing(ns, nil), "test")
		here := configMap(ns, "here", nil)
		account := in("serviceaccounts", "v1", "ServiceAccount", ns, "account", nil)
		pod := in("pods", "v1", "Pod", ns, "pod", obj{"spec": obj{"serviceAccountName": "nobody",
			"containers": []obj{{"name": "c", "image": "i"}}}})
		things := withUIDs(here, account, ownedBy(pod, ownerRef(here, nil), ownerRef(configMap(ns, "gone", nil), nil)))
		result := c.mustRestore(pack(t, things...), withOwners("r", nil))
		require.Len(t, result.Results.Errors.Namespaces[ns], 1)
		require.Len(t, result.Results.Warnings.Namespaces[ns], 1, "it is said once")
	})
	t.Run("whose deletion must not wait", func(t *testing.T) {
		t.Parallel()
		c, ns := newCluster(t), unique(t, "rights")
		group := in("clusterroles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRole", "", ns,
			obj{"rules": []obj{{"apiGroups": []string{""}, "resources": []string{"configmaps", "namespaces"},
				"verbs": []string{"*"}}}})
		binding := in("clusterrolebindings.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding",
			"", ns, obj{"roleRef": obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ns},
				"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ns}}})
		for _, one := range []thing{group, binding} {
			c.create(one, "test")
			t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
		}
		owner := configMap(ns, "owner", nil)
		things := withUIDs(owner, ownedBy(configMap(ns, "owned", nil), ownerRef(owner, obj{"blockOwnerDeletion": true})))
		result, err := c.restoreChanged(t.Context(), pack(t, things...), withOwners("r", nil),
			func(config *rest.Config, _ *Request) {
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: ns,
						Groups: []string{"system:authenticated"}}, next)
				})
			})
		require.NoError(t, err)
		require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
		require.Equal(t, []string{"configmaps/" + ns + "/owned is restored without blockOwnerDeletion of its owner " +
			"ConfigMap owner: the server has no right to update finalizers of the owner, with which it could set it"},
			result.Results.Warnings.Namespaces[ns])
		require.Equal(t, []string{"ConfigMap/owner"}, c.ownersOf(things[1], owner))
	})
	t.Run("of many", func(t *testing.T) {
		t.Parallel()
		c, ns := newCluster(t), unique(t, "many")
		owner := role(ns, "owner")
		things := []thing{owner}
		for _, one := range manyConfigMaps(ns, 300)[1:] {
			things = append(things, ownedBy(one, ownerRef(owner, obj{"controller": true, "blockOwnerDeletion": true})))
		}
		wire := &counting{counts: map[string]int{}}
		_, err := c.restoreChanged(t.Context(), pack(t, withUIDs(things...)...), withOwners("r", nil),
			func(config *rest.Config, _ *Request) { config.WrapTransport = wire.wrap })
		require.NoError(t, err)
		require.LessOrEqual(t, wire.n, len(things)+2, "one request for each, the namespace, and the question for a right")
		require.Equal(t, []string{"Role/owner"}, c.ownersOf(things[150], owner))
	})
}

// TestFinalizersByChoice restores an object with finalizers, and without.
func TestFinalizersByChoice(t *testing.T) {
	t.Parallel()
	c, ns := newCluster(t), unique(t, "finalizers")
	things := []thing{configMap(ns, "a", obj{"metadata": obj{"finalizers": []string{"example.com/keep"}}})}
	r := newRestore("r", nil)
	c.mustRestore(pack(t, things...), r)
	require.Equal(t, []any{"example.com/keep"}, dig(c.live(things[0]), "metadata", "finalizers"))
	c.must(http.MethodPatch, pathOf(things[0], true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
	c.remove(things[0])
	r.Annotations = map[string]string{velerov1.FinalizersAnnotation: "false"}
	c.mustRestore(pack(t, things...), r)
	require.Nil(t, dig(c.live(things[0]), "metadata", "finalizers"))
}
