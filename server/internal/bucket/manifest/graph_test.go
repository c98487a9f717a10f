package manifest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
)

// fromYAML returns the manifest of an archive with the objects of a YAML list.
func fromYAML(t *testing.T, text []byte) *manifest.Manifest {
	t.Helper()
	var list []struct {
		Resource string
		Object   struct {
			Metadata struct{ Name, Namespace string }
			Rest     map[string]any `yaml:",inline"`
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &list))
	var bodies []struct{ Object any }
	require.NoError(t, yaml.Unmarshal(text, &bodies))
	var files []file
	for i, o := range list {
		raw, err := json.Marshal(bodies[i].Object)
		require.NoError(t, err)
		path := archive.ItemPath(schema.ParseGroupResource(o.Resource), "", o.Object.Metadata.Namespace,
			o.Object.Metadata.Name)
		files = append(files, file{path, string(raw)})
	}
	read, _ := fromArchive(t, pack(t, files...))
	require.Len(t, read.Set(), len(list))
	return read
}

// places returns the wave of each item by its UID, and requires that each item is in one wave.
func places(t *testing.T, m *manifest.Manifest, waves [][]*manifest.Item) map[string]int {
	t.Helper()
	found := map[string]int{}
	for n, wave := range waves {
		require.NotEmpty(t, wave)
		for _, item := range wave {
			require.NotContains(t, found, item.UID)
			found[item.UID] = n
		}
	}
	require.Len(t, found, len(m.Set()))
	return found
}

// requireOrder requires that each item comes after what it depends on, except for the broken links.
func requireOrder(t *testing.T, g *manifest.Graph, wave map[string]int, broken map[string]bool) {
	t.Helper()
	links := 0
	for _, item := range g.Items() {
		for _, link := range g.Links(item) {
			if link.Item != nil && !broken[text(link)] {
				links++
				require.Greater(t, wave[item.UID], wave[link.Item.UID], text(link))
			}
		}
	}
	require.NotZero(t, links)
}

func text(l manifest.Link) string {
	return fmt.Sprintf("%s: %s %s %s", l.From, l.Type, l.Path, l.To.Name)
}

func TestAcceptManifest_Graph(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/clusterapi.yaml")
	require.NoError(t, err)
	read := fromYAML(t, content)
	g := read.Graph()
	waves, cycles := g.Waves()
	wave := places(t, read, waves)

	broken := map[string]bool{}
	for _, cycle := range cycles {
		for _, link := range cycle.Broken {
			require.False(t, link.Strict, "%s: nothing that is needed is disregarded", text(link))
			broken[text(link)] = true
		}
	}
	require.Equal(t, map[string]bool{
		"clusters.cluster.x-k8s.io/fleet/v1beta1/prod.json: reference spec.controlPlaneRef.name prod-cp":            true,
		"clusters.cluster.x-k8s.io/fleet/v1beta1/prod.json: reference spec.infrastructureRef.name prod":             true,
		"machines.cluster.x-k8s.io/fleet/v1beta1/prod-cp-1.json: reference spec.bootstrap.configRef.name prod-cp-1": true,
		"machines.cluster.x-k8s.io/fleet/v1beta1/prod-cp-1.json: reference spec.bootstrap.dataSecretName prod-cp-1": true,
		"machines.cluster.x-k8s.io/fleet/v1beta1/prod-cp-1.json: reference spec.infrastructureRef.name prod-cp-1":   true,
		// The control plane needs both the cluster and the template. Either of these may come first.
		"awsmachinetemplates.infrastructure.cluster.x-k8s.io/fleet/v1beta2/prod-cp.json: owner metadata.ownerReferences prod": true,
	}, broken)
	requireOrder(t, g, wave, broken)

	require.Zero(t, wave["crd-clusters"])
	for uid, after := range map[string][]string{
		"cluster":    {"crd-clusters", "ns"},
		"binding":    {"cluster", "crs", "cni"}, // or its restore fails
		"aws":        {"cluster"},
		"kcp":        {"cluster", "template"},
		"machine":    {"crd-machines", "kcp"},
		"config":     {"machine"},
		"awsmachine": {"machine"},
		"data":       {"config"},
		"kubeconfig": {"kcp"},
	} {
		for _, before := range after {
			require.Greater(t, wave[uid], wave[before], "%s after %s", uid, before)
		}
	}
}

func TestAcceptManifest_Graph_OwnersInACircleAndGone(t *testing.T) {
	t.Parallel()
	read := fromYAML(t, []byte(`
- resource: widgets.example.io
  object: {apiVersion: example.io/v1, kind: Widget, metadata: {name: a, namespace: shop, uid: a, ownerReferences: [{apiVersion: example.io/v1, kind: Widget, name: b, uid: b, controller: true}]}}
- resource: widgets.example.io
  object: {apiVersion: example.io/v1, kind: Widget, metadata: {name: b, namespace: shop, uid: b, ownerReferences: [{apiVersion: example.io/v1, kind: Widget, name: a, uid: a, controller: true}]}}
- resource: widgets.example.io
  object: {apiVersion: example.io/v1, kind: Widget, metadata: {name: c, namespace: shop, uid: c, ownerReferences: [{apiVersion: v1, kind: Node, name: gone, uid: gone}, {apiVersion: example.io/v1, kind: Widget, name: a, uid: a}]}}
- resource: widgets.example.io
  object: {apiVersion: example.io/v1, kind: Widget, metadata: {name: me, namespace: shop, uid: me, ownerReferences: [{apiVersion: example.io/v1, kind: Widget, name: me, uid: me, controller: true}]}}
`))
	g := read.Graph()
	waves, cycles := g.Waves()
	wave := places(t, read, waves)
	require.Len(t, cycles, 2)
	require.Len(t, cycles[0].Items, 2)
	require.Len(t, cycles[0].Broken, 1, "one of two is enough")
	require.Len(t, cycles[1].Items, 1, "one that owns itself")
	requireOrder(t, g, wave, map[string]bool{text(cycles[0].Broken[0]): true, text(cycles[1].Broken[0]): true})

	links := g.Links(read.Index["c"])
	require.Nil(t, links[0].Item, "it is not in the backup")
	require.Equal(t, manifest.Ref{Kind: "Node", Namespace: "shop", Name: "gone", UID: "gone"}, links[0].To)
	require.Equal(t, []*manifest.Item{read.Index["a"]}, read.Index["c"].Owners())
}
