package restore

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/fleet"
)

// TestAcceptGraph_ClusterAPI restores some 2,000 objects in the shape of Cluster API with their definitions and the
// operator that serves their webhooks, which refuse an object whose references are missing. None is refused.
func TestAcceptGraph_ClusterAPI(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "fleet")
	o := newOperator(t, c, ns+"-operator")
	clusters := thingsOf(fleet.New(ns, 20, 11)...)
	require.Greater(t, len(clusters), 1900)
	shared := thingsOf(append(fleet.Definitions(), o.Configuration(ns, fleet.Groups(), "*"))...)
	for _, one := range shared {
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
	}
	operated := o.things()
	things := slices.Concat(clusters, shared, operated)
	ended := make(chan *Result, 1)
	go func() { ended <- c.mustRestore(pack(t, things...), withOwners("r", nil)) }()
	c.await(operated[len(operated)-1])
	time.Sleep(2 * time.Second)
	o.run()
	began := time.Now()
	result := <-ended
	t.Logf("restored %d objects within %s of the start of the operator", len(things), time.Since(began))
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Len(t, created(result, ""), len(things))
	var refused []string
	for _, line := range o.answers() {
		if strings.Contains(line, " refused ") {
			refused = append(refused, line)
		}
	}
	require.Empty(t, refused[:min(10, len(refused))], "%d objects were asked for before what they refer to", len(refused))
	c.checkOwners(ns, clusters)
}

// checkOwners compares the owners of all objects of a fleet with those of the backup, and their UIDs with those in the
// cluster.
func (c *cluster) checkOwners(ns string, things []thing) {
	c.t.Helper()
	uids, owners := map[string]any{}, map[string]obj{} // by kind and name
	resources := map[string]string{"secrets": "v1"}
	for _, resource := range fleet.Resources() {
		resources[resource] = "v1beta1"
	}
	for resource, version := range resources {
		all := c.get(pathOf(thing{gr: resource, version: version, namespace: ns}, false))
		kind := strings.TrimSuffix(fmt.Sprint(all["kind"]), "List")
		items, _ := all["items"].([]any)
		for _, one := range items {
			name := fmt.Sprint(kind, "/", dig(one, "metadata", "name"))
			uids[name] = dig(one, "metadata", "uid")
			if refs, _ := dig(one, "metadata", "ownerReferences").([]any); len(refs) == 1 {
				owners[name], _ = refs[0].(obj)
			}
		}
	}
	owned := 0
	for _, one := range things {
		object := objectOf(one)
		refs, _ := dig(object, "metadata", "ownerReferences").([]any)
		for _, ref := range refs {
			owned++
			name := fmt.Sprint(object["kind"], "/", one.name)
			require.NotNil(c.t, owners[name], name)
			owner := fmt.Sprint(dig(ref, "kind"), "/", dig(ref, "name"))
			require.Equal(c.t, owner, fmt.Sprint(owners[name]["kind"], "/", owners[name]["name"]), name)
			require.NotEmpty(c.t, uids[owner], owner)
			require.Equal(c.t, uids[owner], owners[name]["uid"], name)
			require.Equal(c.t, true, owners[name]["controller"], name)
		}
	}
	require.Greater(c.t, owned, 1800)
}
