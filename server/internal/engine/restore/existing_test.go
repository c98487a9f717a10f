package restore

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

func TestExistingObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const none, update = velerov1.PolicyTypeNone, velerov1.PolicyTypeUpdate
	tests := []struct {
		name     string
		policy   velerov1.PolicyType
		change   string // merge patch of the live object before the restore
		action   string
		data     any
		labelled bool
		warns    string
	}{
		{name: "equal", action: "skipped", data: obj{"a": "1"}},
		{name: "equal, policy none", policy: none, action: "skipped", data: obj{"a": "1"}},
		{name: "equal, policy update", policy: update, action: "skipped", data: obj{"a": "1"}},
		{name: "equal but for status, owners and names of restores",
			change: `{"metadata":{"labels":{"velero.io/restore-name":"older","velero.io/backup-name":"older"}}}`,
			action: "skipped", data: obj{"a": "1"}},
		{name: "different", change: `{"data":{"a":"2"}}`, action: "failed", data: obj{"a": "2"},
			warns: "differs from the backup"},
		{name: "different, policy none", policy: none, change: `{"data":{"a":"2"}}`, action: "failed", data: obj{"a": "2"},
			warns: "differs from the backup"},
		{name: "different, policy update", policy: update,
			change: `{"data":{"a":"2","b":"3"},"metadata":{"labels":{"more":"x"}}}`, action: "updated", data: obj{"a": "1"},
			labelled: true},
		{name: "different and immutable, policy update", policy: update, change: `{"data":{"a":"2"},"immutable":true}`,
			action: "failed", data: obj{"a": "2"}, labelled: true, warns: "could not be updated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := unique(t, "ex")
			c.create(namespaceThing(ns, nil), "test")
			one := configMap(ns, "x", obj{"data": obj{"a": "1"}})
			c.create(one, "test")
			backup := c.asThing(one)
			if tt.change != "" {
				c.must(http.MethodPatch, pathOf(one, true), kubeapi.MergePatch, []byte(tt.change))
			}
			result := c.mustRestore(pack(t, backup),
				newRestore("again", func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = tt.policy }))
			require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
			require.Equal(t, []string{ns + "/x(" + tt.action + ")"}, entries(result, "v1/ConfigMap"))
			live := c.live(one)
			require.Equal(t, tt.data, live["data"])
			require.Equal(t, tt.labelled, dig(live, "metadata", "labels", "velero.io/restore-name") == "again")
			if tt.warns == "" {
				require.Zero(t, result.Results.Warnings.Count(), "%+v", result.Results.Warnings)
			} else {
				require.Len(t, result.Results.Warnings.Namespaces[ns], 1)
				require.Contains(t, result.Results.Warnings.Namespaces[ns][0], tt.warns)
			}
		})
	}
}

func TestExistingServiceAccountIsMerged(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "sa")
	c.create(namespaceThing(ns, nil), "test")
	account := func(extra obj) thing { return in("serviceaccounts", "v1", "ServiceAccount", ns, "robot", extra) }
	c.create(account(obj{
		"metadata": obj{"labels": obj{"both": "live", "live": "x"}},
		"secrets":  []obj{{"name": "live"}, {"name": "both"}}, "imagePullSecrets": []obj{{"name": "pull-live"}},
	}), "test")
	backup := account(obj{
		"metadata": obj{"labels": obj{"both": "backup", "backup": "y"}, "annotations": obj{"note": "backup"}},
		"secrets":  []obj{{"name": "both"}, {"name": "backup"}}, "imagePullSecrets": []obj{{"name": "pull-backup"}},
	})
	result := c.mustRestore(pack(t, backup), newRestore("r", nil))
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
	require.Len(t, result.Results.Warnings.Namespaces[ns], 1)
	require.Contains(t, result.Results.Warnings.Namespaces[ns][0],
		"differs from the backup in metadata.labels.both; only what it lacked was added")
	require.Equal(t, []string{ns + "/robot(updated)"}, entries(result, "v1/ServiceAccount"))
	live := c.live(backup)
	require.Equal(t, []any{obj{"name": "live"}, obj{"name": "both"}, obj{"name": "backup"}}, live["secrets"])
	require.Equal(t, []any{obj{"name": "pull-live"}, obj{"name": "pull-backup"}}, live["imagePullSecrets"])
	require.Equal(t, "live", dig(live, "metadata", "labels", "both"))
	require.Equal(t, "x", dig(live, "metadata", "labels", "live"))
	require.Equal(t, "y", dig(live, "metadata", "labels", "backup"))
	require.Equal(t, "backup", dig(live, "metadata", "annotations", "note"))

	update := newRestore("r", func(s *velerov1.RestoreSpec) { s.ExistingResourcePolicy = velerov1.PolicyTypeUpdate })
	again := c.mustRestore(pack(t, backup), update)
	require.Equal(t, []string{ns + "/robot(updated)"}, entries(again, "v1/ServiceAccount"))
	require.Equal(t, "backup", dig(c.live(backup), "metadata", "labels", "both"))
	require.Equal(t, "x", dig(c.live(backup), "metadata", "labels", "live"))
	again = c.mustRestore(pack(t, backup), update)
	require.Equal(t, []string{ns + "/robot(skipped)"}, entries(again, "v1/ServiceAccount"))
	require.Zero(t, again.Results.Warnings.Count())
}

func TestServiceWhosePortIsTaken(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "svc")
	c.create(namespaceThing(ns, nil), "test")
	service := func(name string) thing {
		return in("services", "v1", "Service", ns, name,
			obj{"spec": obj{"type": "NodePort", "ports": []obj{{"port": 80, "nodePort": 31817}}}})
	}
	c.create(service("here"), "test")
	backup := c.asThing(service("here"))

	result := c.mustRestore(pack(t, backup, service("other")), newRestore("r", nil))
	require.Equal(t, []string{ns + "/here(skipped)", ns + "/other(failed)"}, entries(result, "v1/Service"))
	require.Len(t, result.Results.Errors.Namespaces[ns], 1, "%+v", result.Results)
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "provided port is already allocated")
	require.Zero(t, result.Results.Warnings.Count(), "%+v", result.Results.Warnings)
}
