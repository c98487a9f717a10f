package restore

import (
	"compress/gzip"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// told is the file of a restore.
type told struct {
	outcome.Content
	items map[string]outcome.Item // by the names of items; of those that are left out together by resource and namespace
}

// tell restores with an account and returns the file.
func (c *cluster) tell(backup *archive.Archive, r *velerov1.Restore, dry bool) told {
	c.t.Helper()
	file, err := outcome.NewSpool(c.t.TempDir())
	require.NoError(c.t, err)
	defer file.Remove()
	_, err = c.restoreChanged(c.t.Context(), backup, r, func(_ *rest.Config, request *Request) {
		request.Account = NewAccount(file)
		if dry {
			request.DryRun = &DryRun{Actions: dryrun.NewActions(func(string) bool { return true })}
		}
	})
	require.NoError(c.t, err)
	return c.read(file)
}

func (c *cluster) read(file *outcome.Spool) told {
	c.t.Helper()
	stored, _, err := file.Finish(nil)
	require.NoError(c.t, err)
	plain, err := gzip.NewReader(stored)
	require.NoError(c.t, err)
	found := told{items: map[string]outcome.Item{}}
	found.Content, err = outcome.Read(plain, func(i outcome.Item) error {
		// A namespace that is left out is created nevertheless if other items need it.
		before, twice := found.items[i.Source().String()]
		require.False(c.t, twice && before.Outcome != outcome.LeftOut, "%+v", i)
		found.items[i.Source().String()] = i
		return nil
	})
	require.NoError(c.t, err)
	return found
}

// graphOfAll are objects whose order needs the graph: a runtime class for a pod, a definition, a cycle, and what is not
// in the backup.
func graphOfAll(t *testing.T, ns string) []thing {
	t.Helper()
	group := "x" + strings.ReplaceAll(ns, "-", "") + ".example.com"
	pod := in("pods", "v1", "Pod", ns, "pod", obj{"spec": obj{"runtimeClassName": ns, "serviceAccountName": "app",
		"containers": []obj{{"name": "c", "image": "i"}},
		"volumes": []obj{{"name": "v", "configMap": obj{"name": "config"}},
			{"name": "w", "secret": obj{"secretName": "gone"}}}}})
	first, second := role(ns, "first"), role(ns, "second")
	return withUIDs(namespaceThing(ns, nil), pod, configMap(ns, "config", nil),
		in("runtimeclasses.node.k8s.io", "node.k8s.io/v1", "RuntimeClass", "", ns, obj{"handler": "runc"}),
		in("serviceaccounts", "v1", "ServiceAccount", ns, "app", nil),
		ownedBy(first, ownerRef(second, nil)), ownedBy(second, ownerRef(first, nil)),
		in("customresourcedefinitions.apiextensions.k8s.io", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
			"gadgets."+group, obj{"spec": obj{"group": group, "scope": "Namespaced",
				"names": obj{"plural": "gadgets", "kind": "Gadget", "singular": "gadget", "listKind": "GadgetList"},
				"versions": []obj{{"name": "v1", "served": true, "storage": true,
					"schema": obj{"openAPIV3Schema": obj{"type": "object"}}}}}}),
		in("gadgets."+group, group+"/v1", "Gadget", ns, "gadget", nil))
}

// TestAcceptGraph_DryRunSaysThePlan compares the plan of a dry run with that of the restore, and with the order in
// which objects were created.
func TestAcceptGraph_DryRunSaysThePlan(t *testing.T) {
	t.Parallel()
	c, ns := newCluster(t), unique(t, "plan")
	things := graphOfAll(t, ns)
	for _, one := range things {
		if one.namespace == "" {
			t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
		}
	}
	backup, restore := pack(t, things...), newRestore("r", nil)
	before := c.tell(backup, restore, true)
	require.Nil(t, c.live(things[1]), "nothing was restored")
	done := c.tell(backup, restore, false)
	require.NotNil(t, before.Plan)
	require.Equal(t, before.Plan, done.Plan)
	require.Len(t, done.items, len(things))

	require.Equal(t, []outcome.Count{{Resource: "customresourcedefinitions.apiextensions.k8s.io", Items: 1}},
		done.Plan.Waves[0].Resources)
	require.Contains(t, done.Plan.Needs, outcome.Pair{Resource: "pods", Needs: "runtimeclasses.node.k8s.io", Items: 1,
		Strict: true})
	require.Len(t, done.Plan.Cycles, 1)
	require.Equal(t, 2, done.Plan.Cycles[0].Items)
	missing := done.Plan.Missing
	require.NotEmpty(t, missing)
	pod := outcome.Ref{Resource: "pods", Namespace: ns, Name: "pod"}
	found := false
	for _, m := range missing {
		found = found || m.Name == "gone" && m.Resource == "secrets" && m.Needer == pod && !m.LeftOut
	}
	require.True(t, found, "%+v", missing)

	version := func(ref outcome.Ref) int {
		for _, one := range things {
			if one.gr == ref.Resource && one.namespace == ref.Namespace && one.name == ref.Name {
				n, err := strconv.Atoi(dig(c.live(one), "metadata", "resourceVersion").(string))
				require.NoError(t, err)
				return n
			}
		}
		t.Fatalf("no %s", ref)
		return 0
	}
	total := 0
	for _, item := range done.items {
		require.Equal(t, outcome.Created, item.Outcome, "%+v", item)
		require.Equal(t, before.items[item.Source().String()].Wave, item.Wave, "%+v", item)
		require.Positive(t, item.Wave)
		for _, need := range item.Needs {
			require.Less(t, done.items[need.String()].Wave, item.Wave)
			if need.Resource != "namespaces" { // which controllers change
				require.Less(t, version(need.Ref), version(item.Source()), "%s before %s", need.Ref, item.Source())
			}
		}
	}
	for _, wave := range done.Plan.Waves {
		total += wave.Items()
	}
	require.Equal(t, len(things), total)
	require.Len(t, done.items[pod.String()].Needs, len(before.items[pod.String()].Needs))
	require.NotNil(t, done.items[pod.String()].HeldUpBy)
}

// TestAccountOfWhatIsLeftOut says which filter leaves out an item.
func TestAccountOfWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	c, ns, other := newCluster(t), unique(t, "in"), unique(t, "out")
	things := []thing{namespaceThing(ns, nil), configMap(ns, "a", labelled(obj{"a": "b"})), configMap(ns, "b", nil),
		configMap(other, "c", nil), configMap(other, "d", nil), in("secrets", "v1", "Secret", ns, "s", nil),
		in("storageclasses.storage.k8s.io", "storage.k8s.io/v1", "StorageClass", "", ns, obj{"provisioner": "x.io/y"})}
	r := newRestore("r", func(s *velerov1.RestoreSpec) {
		s.ExcludedNamespaces, s.ExcludedResources = []string{other}, []string{"secrets"}
		s.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	})
	found := c.tell(pack(t, things...), r, false)
	for name, want := range map[string]outcome.Item{
		"configmaps/" + ns + "/b": {Reason: "its labels do not match labelSelector or orLabelSelectors"},
		"configmaps/" + other:     {Items: 2, Reason: "excludedNamespaces excludes " + other},
		"secrets":                 {Items: 1, Reason: "excludedResources excludes secrets"},
		"storageclasses.storage.k8s.io": {Items: 1, Reason: "only some namespaces are restored, so that cluster-scoped " +
			"objects need includeClusterResources: true"},
	} {
		got := found.items[name]
		require.Equal(t, outcome.LeftOut, got.Outcome, name)
		require.Equal(t, want.Reason, got.Reason)
		require.Equal(t, want.Items, got.Items)
	}
	require.Equal(t, outcome.Created, found.items["configmaps/"+ns+"/a"].Outcome)
}

// TestAccountOfARestoreAtWork asks about items of a restore that waits for a namespace that is being deleted.
func TestAccountOfARestoreAtWork(t *testing.T) {
	t.Parallel()
	c, ns := newCluster(t), unique(t, "live")
	stuck := configMap(ns, "stuck", obj{"metadata": obj{"finalizers": []string{"example.com/keep"}}})
	c.create(namespaceThing(ns, nil), "test")
	c.create(stuck, "test")
	c.must(http.MethodDelete, pathOf(namespaceThing(ns, nil), true), "", nil)
	things := graphOfAll(t, ns)
	t.Cleanup(func() {
		for _, one := range things {
			if one.namespace == "" {
				c.call(http.MethodDelete, pathOf(one, true), "", nil)
			}
		}
	})
	file, err := outcome.NewSpool(t.TempDir())
	require.NoError(t, err)
	defer file.Remove()
	account := NewAccount(file)
	ended := make(chan error, 1)
	go func() {
		_, err := c.restoreChanged(context.WithoutCancel(t.Context()), pack(t, things...), newRestore("r", nil),
			func(_ *rest.Config, request *Request) { request.Account = account })
		ended <- err
	}()
	find := func(resource, name string) outcome.Item {
		found, err := account.Find(func(i *outcome.Item) bool { return i.Resource == resource && i.Name == name }, 2)
		require.NoError(t, err)
		if len(found) != 1 {
			return outcome.Item{}
		}
		return found[0]
	}
	require.Eventually(t, func() bool {
		return find("pods", "pod").Outcome == outcome.Working || find("pods", "pod").Outcome == outcome.Waiting
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		account := find("serviceaccounts", "app")
		return account.Outcome == outcome.Working && len(account.Waits) == 1 && account.Waits[0].Open
	}, time.Minute, 20*time.Millisecond)
	left, more := account.Left(100)
	require.Zero(t, more)
	require.NotEmpty(t, left)
	require.Less(t, account.Plan().Waves[1].Done, account.Plan().Waves[1].Items()+1)
	few, more := account.Left(1)
	require.Len(t, few, 1)
	require.Equal(t, len(left)-1, more)
	require.Empty(t, ended)
	c.must(http.MethodPatch, pathOf(stuck, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
	require.NoError(t, <-ended)
	left, _ = account.Left(100)
	require.Empty(t, left)
	require.Equal(t, outcome.Created, find("pods", "pod").Outcome, "the file says so")
	for _, wave := range account.Plan().Waves {
		require.Equal(t, wave.Items(), wave.Done)
	}
}
