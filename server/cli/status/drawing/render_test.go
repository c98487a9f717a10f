package drawing

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

// item returns an item that depends on others.
func item(group, resource, kind, namespace, name string, edges ...manifest.Edge) *manifest.Item {
	return &manifest.Item{
		APIGroup: group, APIVersion: "v1", Resource: resource, ItemKind: kind, Namespace: namespace, Name: name,
		UID: resource + "-" + name, Edges: edges,
	}
}

func ref(group, resource, namespace, name string) manifest.Ref {
	return manifest.Ref{Group: group, Resource: resource, Namespace: namespace, Name: name}
}

func controlled(group, resource, namespace, name string) manifest.Edge {
	return manifest.Edge{Type: manifest.Controller, Strict: true, To: ref(group, resource, namespace, name),
		Path: "metadata.ownerReferences[0]"}
}

func strict(path, group, resource, namespace, name string) manifest.Edge {
	return manifest.Edge{Type: manifest.Reference, Strict: true, To: ref(group, resource, namespace, name), Path: path}
}

func soft(path, group, resource, namespace, name string) manifest.Edge {
	return manifest.Edge{Type: manifest.Reference, To: ref(group, resource, namespace, name), Path: path}
}

// shop returns a backup with a workload, a claim and its volume, and something that is not in it.
func shop() []*manifest.Item {
	const volume = "persistentvolumes"
	return []*manifest.Item{
		item("", "namespaces", "Namespace", "", "shop"),
		item("apps", "deployments", "Deployment", "shop", "web"),
		item("apps", "replicasets", "ReplicaSet", "shop", "web-1", controlled("apps", "deployments", "shop", "web")),
		item("", "pods", "Pod", "shop", "web-1-a", controlled("apps", "replicasets", "shop", "web-1"),
			strict("spec.serviceAccountName", "", "serviceaccounts", "shop", "web"),
			soft("spec.containers[0].envFrom[0].configMapRef.name", "", "configmaps", "shop", "settings"),
			soft("spec.containers[1].envFrom[0].configMapRef.name", "", "configmaps", "shop", "settings"),
			soft("spec.volumes[1].secret.secretName", "", "secrets", "shop", "tls"),
			strict("spec.volumes[0].persistentVolumeClaim.claimName", "", "persistentvolumeclaims", "shop", "data")),
		item("", "serviceaccounts", "ServiceAccount", "shop", "web"),
		item("", "configmaps", "ConfigMap", "shop", "settings"),
		item("", "configmaps", "ConfigMap", "shop", "alone"),
		item("", "persistentvolumeclaims", "PersistentVolumeClaim", "shop", "data",
			manifest.Edge{Type: manifest.Action, To: ref("", volume, "", "pv-1"), Plugin: "cleat.dev/pvc"},
			strict("spec.storageClassName", "storage.k8s.io", "storageclasses", "", "fast")),
		item("", volume, "PersistentVolume", "", "pv-1", strict("spec.storageClassName", "storage.k8s.io", "storageclasses",
			"", "fast")),
		item("storage.k8s.io", "storageclasses", "StorageClass", "", "fast"),
	}
}

// clusterAPI returns the shape of a cluster of Cluster API, with the reference back from the cluster to its control
// plane: a cycle.
func clusterAPI() []*manifest.Item {
	const group, infra = "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"
	return []*manifest.Item{
		item(group, "clusters", "Cluster", "capi", "c", soft("spec.controlPlaneRef", "controlplane."+group,
			"kubeadmcontrolplanes", "capi", "c-cp"),
			soft("spec.infrastructureRef", infra, "dockerclusters", "capi", "c")),
		item("controlplane."+group, "kubeadmcontrolplanes", "KubeadmControlPlane", "capi", "c-cp",
			controlled(group, "clusters", "capi", "c")),
		item(infra, "dockerclusters", "DockerCluster", "capi", "c",
			manifest.Edge{Type: manifest.Owner, To: ref(group, "clusters", "capi", "c"), Path: "metadata.ownerReferences[0]"}),
		item(group, "machinedeployments", "MachineDeployment", "capi", "c-md", controlled(group, "clusters", "capi", "c")),
		item(group, "machinesets", "MachineSet", "capi", "c-md-1", controlled(group, "machinedeployments", "capi", "c-md")),
		item(group, "machines", "Machine", "capi", "c-md-1-x", controlled(group, "machinesets", "capi", "c-md-1"),
			strict("spec.infrastructureRef", infra, "dockermachines", "capi", "c-md-1-x")),
		item("addons."+group, "clusterresourcesetbindings", "ClusterResourceSetBinding", "capi", "c",
			manifest.Edge{Type: manifest.Owner, To: ref(group, "clusters", "capi", "c"), Path: "metadata.ownerReferences[0]"}),
	}
}

// graphOf returns the graph of items, all of them shown.
func graphOf(t *testing.T, items ...*manifest.Item) *Graph {
	t.Helper()
	m := manifest.New()
	for _, item := range items {
		_, err := m.Add(item)
		require.NoError(t, err)
	}
	return New(Options{Title: "nightly", Graph: m.Graph(), Items: items})
}

var forms = map[string]func(*Graph, io.Writer) error{
	"tree.txt":      func(g *Graph, w io.Writer) error { return g.Tree(w, false) },
	"referrers.txt": func(g *Graph, w io.Writer) error { return g.Tree(w, true) },
	"graph.dot":     (*Graph).DOT,
	"graph.mmd":     (*Graph).Mermaid,
	"graph.svg":     (*Graph).SVG,
	"graph.html":    (*Graph).HTML,
	"graph.json":    func(g *Graph, w io.Writer) error { return json.NewEncoder(w).Encode(g) },
}

func TestFormsOfAShop(t *testing.T) {
	t.Parallel()
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statustest.Golden(t, "shop_"+name, func(w io.Writer) error { return form(graphOf(t, shop()...), w) })
		})
	}
}

func TestFormsOfClusterAPI(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tree.txt", "graph.svg", "graph.mmd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statustest.Golden(t, "capi_"+name, func(w io.Writer) error { return forms[name](graphOf(t, clusterAPI()...), w) })
		})
	}
}

func TestGraphDoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	items, reversed := shop(), shop()
	for i, item := range reversed {
		items[len(items)-1-i] = item
	}
	for name, form := range forms {
		var a, b bytes.Buffer
		require.NoError(t, form(graphOf(t, shop()...), &a))
		require.NoError(t, form(graphOf(t, items...), &b))
		require.Equal(t, a.String(), b.String(), name)
	}
}

func TestEmptyGraph(t *testing.T) {
	t.Parallel()
	for name, form := range forms {
		var out bytes.Buffer
		require.NoError(t, form(graphOf(t), &out), name)
		require.NotContains(t, out.String(), "null")
	}
}

// crowd returns n pods in some namespaces, each with a config map.
func crowd(n int) []*manifest.Item {
	items := make([]*manifest.Item, 0, 2*n)
	for i := range n {
		namespace, name := fmt.Sprintf("ns-%d", i%10), fmt.Sprintf("x-%d", i)
		items = append(items, item("", "configmaps", "ConfigMap", namespace, name),
			item("", "pods", "Pod", namespace, name, soft("spec.volumes[0].configMap.name", "", "configmaps", namespace, name)))
	}
	return items
}

func TestCollapse(t *testing.T) {
	t.Parallel()
	g := graphOf(t, crowd(1500)...)
	require.Same(t, g, g.Collapse(3000))
	byNamespace := g.Collapse(200)
	require.Len(t, byNamespace.Nodes, 20)
	require.Len(t, byNamespace.Edges, 10)
	require.Equal(t, "150 references", byNamespace.Edges[0].label())
	require.Equal(t, "configmaps, 150 in ns-0", byNamespace.Nodes[0].title())
	require.Equal(t, "3000 objects are more than 200, so each box stands for those of one resource and namespace.",
		byNamespace.Notes[0])
	byResource := g.Collapse(10)
	require.Len(t, byResource.Nodes, 2)
	require.Equal(t, []Edge{{From: 1, To: 0, Type: manifest.Reference, Items: 1500}}, byResource.Edges)
	require.Contains(t, byResource.Notes[0], "so each box stands for those of one resource.")
	require.Len(t, g.Nodes, 3000, "the graph itself is as it was")
	statustest.Golden(t, "crowd.svg", byResource.SVG)
}

func TestPicturesOfManyItems(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, graphOf(t, crowd(1500)...).SVG(&out))
	require.Equal(t, 3000, strings.Count(out.String(), `data-node="`))
	wellFormed(t, out.Bytes())
}

// wellFormed fails the test unless content is XML.
func wellFormed(t *testing.T, content []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(content))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestForeignTextIsEscaped(t *testing.T) {
	t.Parallel()
	const evil = "\"];</title></script><script>alert(1)</script>\x1b[2J\u202e\n%%{init}%% `$x` \\"
	bad := manifest.Edge{Type: evil, To: manifest.Ref{Resource: evil, Group: evil, Namespace: evil, Name: evil},
		Path: evil, Plugin: evil}
	items := shop()
	items[1].Edges = []manifest.Edge{bad}
	g := graphOf(t, items...)
	g.Title = evil
	for name, form := range forms {
		var out bytes.Buffer
		require.NoError(t, form(g, &out), name)
		if name != "graph.json" { // JSON is escaped where it is printed
			require.NotContains(t, out.String(), "\x1b", name)
			require.NotContains(t, out.String(), "\u202e", name)
		}
		switch name {
		case "graph.svg":
			wellFormed(t, out.Bytes())
			require.NotContains(t, out.String(), "<script")
		case "graph.html":
			require.Equal(t, 1, strings.Count(out.String(), "<script"))
		case "graph.mmd":
			require.NotContains(t, out.String(), "%%{")
			require.NotContains(t, out.String(), "<script")
			for line := range strings.Lines(out.String()) {
				require.Zero(t, strings.Count(line, `"`)%2, line)
			}
		case "graph.dot":
			outside := regexp.MustCompile(`"(\\.|[^"\\])*"`).ReplaceAllString(out.String(), "")
			require.NotContains(t, outside, "script")
			require.NotContains(t, outside, `"`)
		}
	}
}

func TestTreeEndsWhateverTheGraph(t *testing.T) {
	t.Parallel()
	const length = 5000
	var chain []*manifest.Item
	for i := range length {
		name := fmt.Sprintf("x-%04d", i)
		chain = append(chain, item("", "pods", "Pod", "ns", name,
			strict("spec.next", "", "pods", "ns", fmt.Sprintf("x-%04d", i+1))))
	}
	var out bytes.Buffer
	require.NoError(t, graphOf(t, chain...).Tree(&out, false))
	for i := range length {
		require.Contains(t, out.String(), fmt.Sprintf("pods/ns/x-%04d", i))
	}
	require.Less(t, out.Len(), length*4*deepest+length*200)

	chain[length-1].Edges[0].To.Name = "x-0000"
	out.Reset()
	require.NoError(t, graphOf(t, chain...).Tree(&out, false))
	require.Contains(t, out.String(), fmt.Sprintf("A cycle of %d items: pods/ns/x-0000, ", length))
	require.NoError(t, graphOf(t, chain...).SVG(io.Discard))

	self := item("", "pods", "Pod", "ns", "self", strict("spec.next", "", "pods", "ns", "self"))
	out.Reset()
	require.NoError(t, graphOf(t, self).Tree(&out, false))
	require.Equal(t, "pods/ns/self (in a cycle)\n└── strict reference: pods/ns/self (in a cycle; cycle) [spec.next]\nA "+
		"cycle of 1 item: pods/ns/self.\n", out.String())
}
