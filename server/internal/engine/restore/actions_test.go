package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// mutate returns the result of an action that changes the item.
func mutate(in restoreitemaction.Input, change func(o obj)) (*restoreitemaction.Result, error) {
	var o obj
	if err := json.Unmarshal(in.Item, &o); err != nil {
		return nil, err
	}
	change(o)
	item, err := json.Marshal(o)
	return &restoreitemaction.Result{Item: item}, err
}

func wants(gr, namespace, name string) framework.ResourceIdentifier {
	return framework.ResourceIdentifier{Resource: gr, Namespace: namespace, Name: name}
}

func TestActionsRunInOrderOnEachOthersResults(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns, target := unique(t, "act"), unique(t, "to")
	var inputs []restoreitemaction.Input
	first := &fakeAction{name: "a/first", applies: framework.ResourceSelector{IncludedResources: []string{"cm"},
		IncludedNamespaces: []string{target}}, execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
		inputs = append(inputs, in)
		return mutate(in, func(o obj) {
			o["data"] = obj{"first": "1"}
			o["metadata"].(obj)["labels"] = obj{"now": "labelled"}
		})
	}}
	second := &fakeAction{name: "a/second", applies: framework.ResourceSelector{LabelSelector: "now=labelled"},
		execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
			return mutate(in, func(o obj) { o["data"].(obj)["second"] = "2" })
		}}
	// the namespace of the backup
	never := &fakeAction{name: "a/never", applies: framework.ResourceSelector{IncludedNamespaces: []string{ns}}}
	csi := &fakeAction{name: "velero.io/csi-thing"}
	backup := configMap(ns, "x",
		obj{"data": obj{"a": "1"}, "metadata": obj{"uid": "u", "resourceVersion": "7",
			"ownerReferences": []obj{{"name": "o"}}}})

	restore := newRestore("r", func(s *velerov1.RestoreSpec) { s.NamespaceMapping = map[string]string{ns: target} })
	result := c.mustRestore(pack(t, backup), restore, first, second, never, csi)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
	live := c.live(configMap(target, "x", nil))
	require.Equal(t, obj{"first": "1", "second": "2"}, live["data"])
	require.Equal(t, "b", dig(live, "metadata", "labels", "velero.io/backup-name"))
	require.Empty(t, never.saw)
	require.Empty(t, csi.saw, "EnableCSI is off")

	require.Len(t, inputs, 1)
	require.JSONEq(t, string(backup.body), string(inputs[0].ItemFromBackup))
	require.JSONEq(t, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1"},"metadata":{"name":"x","namespace":%q}}`, ns,
	), string(inputs[0].Item))
	var received velerov1.Restore
	require.NoError(t, json.Unmarshal(inputs[0].Restore, &received))
	require.Equal(t, restore.Spec, received.Spec)
}

func TestActionsMaySkipFailAndStartOperations(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "act")
	action := &fakeAction{name: "a/b", applies: framework.ResourceSelector{IncludedResources: []string{"configmaps"}}}
	action.execute = func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
		var o struct{ Metadata struct{ Name string } }
		_ = json.Unmarshal(in.Item, &o)
		switch o.Metadata.Name {
		case "skip":
			return &restoreitemaction.Result{SkipRestore: true,
				AdditionalItems: []framework.ResourceIdentifier{wants("secrets", ns, "s")}}, nil
		case "fail":
			return nil, errors.New("RestoreItemAction(a/b): no luck")
		case "nil":
			return nil, nil
		case "garbage":
			return &restoreitemaction.Result{Item: []byte("no json")}, nil
		case "kindless":
			return &restoreitemaction.Result{Item: []byte(`{"apiVersion":"v1","metadata":{"name":"kindless"}}`)}, nil
		case "op":
			return &restoreitemaction.Result{Item: in.Item, OperationID: "op-1"}, nil
		case "converted":
			return mutate(in, func(o obj) { o["kind"] = "Secret"; delete(o, "data") })
		}
		return &restoreitemaction.Result{Item: in.Item}, nil
	}
	result := c.mustRestore(pack(t,
		namespaceThing(ns, nil), configMap(ns, "skip", nil), configMap(ns, "fail", nil), configMap(ns, "nil", nil),
		configMap(ns, "garbage", nil),
		configMap(ns, "kindless", nil), configMap(ns, "op", nil), configMap(ns, "converted", nil), configMap(ns, "plain",
			nil),
	), newRestore("r", nil), action)
	require.Equal(t, []string{
		ns + "/converted(created)", ns + "/fail(failed)", ns + "/garbage(failed)", ns + "/kindless(failed)", ns +
			"/nil(failed)",
		ns + "/op(created)", ns + "/plain(created)", ns + "/skip(skipped)",
	}, entries(result, "v1/ConfigMap"))
	require.Len(t, result.Results.Errors.Namespaces[ns], 4, "%+v", result.Results.Errors)
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "error preparing configmaps/"+ns+
		"/fail: RestoreItemAction(a/b): no luck")
	require.Zero(t, result.Results.Warnings.Count(), "additional items of a skipped item are ignored")
	require.Len(t, result.Operations, 1)
	require.False(t, result.Operations[0].Created.IsZero())
	require.Equal(t, operation.Operation{
		Action: "a/b", ID: "op-1", Item: wants("configmaps", ns, "op"), Created: result.Operations[0].Created,
		Status: operation.Status{Phase: operation.New},
	}, result.Operations[0])
	require.NotNil(t, c.live(in("secrets", "v1", "Secret", ns, "converted", nil)))
}

func TestAdditionalItemsAreRestoredFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns, target := unique(t, "add"), unique(t, "to")
	var mu sync.Mutex
	order := []string{}
	// Secrets come before config maps by priority: here the config map needs a role, which comes later.
	action := &fakeAction{name: "a/b", execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		_ = json.Unmarshal(in.Item, &o)
		mu.Lock()
		order = append(order, o.Kind+" "+o.Metadata.Name)
		mu.Unlock()
		r := &restoreitemaction.Result{Item: in.Item}
		if o.Kind == "Secret" {
			r.AdditionalItems = []framework.ResourceIdentifier{wants("configmaps", ns, "needed"),
				wants("configmaps", ns, "missing")}
		}
		return r, nil
	}}
	result := c.mustRestore(pack(t, namespaceThing(ns, nil), configMap(ns, "needed", nil),
		in("secrets", "v1", "Secret", ns, "s", nil)),
		newRestore("r", func(s *velerov1.RestoreSpec) { s.NamespaceMapping = map[string]string{ns: target} }), action)
	require.Equal(t, []string{"Secret s", "ConfigMap needed"}, order, "once each")
	require.Equal(t, []string{target + "/needed(created)"}, entries(result, "v1/ConfigMap"))
	require.Len(t, result.Results.Warnings.Namespaces[ns], 1)
	require.Contains(t, result.Results.Warnings.Namespaces[ns][0], "configmaps/"+ns+"/missing")
	require.Zero(t, result.Results.Errors.Count())
}

func TestItemsThatNeedEachOtherDoNotDeadlock(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "ring")
	const n = 24
	things := []thing{namespaceThing(ns, nil)}
	for i := range n {
		things = append(things, configMap(ns, fmt.Sprintf("c%d", i), nil))
	}
	// Each needs the next two, all at once: every worker waits for another one.
	action := &fakeAction{name: "a/ring", execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
		var o struct{ Metadata struct{ Name string } }
		_ = json.Unmarshal(in.Item, &o)
		var i int
		_, _ = fmt.Sscanf(o.Metadata.Name, "c%d", &i)
		return &restoreitemaction.Result{Item: in.Item, AdditionalItems: []framework.ResourceIdentifier{
			wants("configmaps", ns, fmt.Sprintf("c%d", (i+1)%n)), wants("configmaps", ns, fmt.Sprintf("c%d", (i+7)%n)),
		}}, nil
	}}
	result := c.mustRestore(pack(t, things...), newRestore("r", nil), action)
	requireAllCreated(t, c, result, things)
	require.Len(t, action.saw, n, "each item once")
}

func TestActionWithoutAValidSelectorFailsTheRestore(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	action := &fakeAction{name: "a/b", applies: framework.ResourceSelector{LabelSelector: "((("}}
	_, err := c.restore(pack(t, configMap("default", "x", nil)), newRestore("r", nil), testOptions(), action)
	require.ErrorContains(t, err, "a/b")
}
