package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

// run runs "cleat manifest" with the arguments and returns all that it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return clitest.Execute(t, NewCommand, append([]string{"manifest"}, args...)...)
}

// must runs a command that has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	require.NoError(t, err, out)
	return out
}

// item returns an item. of is "RESOURCE.GROUP KIND NAMESPACE/NAME", without group and namespace where there are none.
func item(of string, labels map[string]string, edges ...manifest.Edge) *manifest.Item {
	parts := strings.Fields(of)
	i := &manifest.Item{APIVersion: "v1", ItemKind: parts[1], Labels: labels, Edges: edges,
		Included: manifest.Inclusion{By: manifest.ByFilters}}
	i.Resource, i.APIGroup, _ = strings.Cut(parts[0], ".")
	var found bool
	if i.Namespace, i.Name, found = strings.Cut(parts[2], "/"); !found {
		i.Namespace, i.Name = "", parts[2]
	}
	i.UID = i.Resource + "-" + strings.ReplaceAll(parts[2], "/", "-")
	return i
}

// to returns an edge. of is as for item, without the kind.
func to(kind manifest.EdgeType, strict bool, path, of string) manifest.Edge {
	parts := strings.Fields(of)
	ref := item(parts[0]+" - "+parts[1], nil).Ref()
	ref.Kind, ref.UID = "", ""
	return manifest.Edge{Type: kind, Strict: strict, Path: path, To: ref}
}

// shop returns a backup of two namespaces: a workload with a volume, custom resources, a cycle, and something that is
// not in it.
func shop() []*manifest.Item {
	web := map[string]string{"app": "web"}
	volume := item("persistentvolumes PersistentVolume pv-1", nil)
	claim := item("persistentvolumeclaims PersistentVolumeClaim shop/data", web,
		manifest.Edge{Type: manifest.Action, Plugin: "cleat.dev/pvc", To: volume.Ref()})
	pod := item("pods Pod shop/web-1-a", web, to(manifest.Controller, true, "metadata.ownerReferences[0]",
		"replicasets.apps shop/web-1"),
		to(manifest.Reference, true, "spec.volumes[0].persistentVolumeClaim.claimName", "persistentvolumeclaims shop/data"),
		to(manifest.Reference, false, "spec.volumes[1].secret.secretName", "secrets shop/tls"))
	request := func(i *manifest.Item, by, plugin string, of *manifest.Item) {
		ref := of.Ref()
		i.Included = manifest.Inclusion{By: by, Plugin: plugin, Of: &ref}
	}
	request(volume, manifest.ByAction, "cleat.dev/pvc", claim)
	request(claim, manifest.ByBlock, "cleat.dev/pod", pod)
	namespace := item("namespaces Namespace shop", map[string]string{"team": "a"})
	namespace.Included.By = manifest.ByContent
	return []*manifest.Item{
		namespace, volume, claim, pod,
		item("namespaces Namespace lab", nil),
		item("configmaps ConfigMap lab/settings", web), item("configmaps ConfigMap shop/settings", web),
		item("deployments.apps Deployment shop/web", web),
		item("replicasets.apps ReplicaSet shop/web-1", web, to(manifest.Controller, true, "metadata.ownerReferences[0]",
			"deployments.apps shop/web")),
		item("customresourcedefinitions.apiextensions.k8s.io CustomResourceDefinition clusters.cluster.x-k8s.io", nil),
		item("clusters.cluster.x-k8s.io Cluster lab/c", nil, to(manifest.Reference, false, "spec.controlPlaneRef",
			"planes.cluster.x-k8s.io lab/c-cp")),
		item("planes.cluster.x-k8s.io Plane lab/c-cp", nil, to(manifest.Controller, true, "metadata.ownerReferences[0]",
			"clusters.cluster.x-k8s.io lab/c")),
	}
}

// file writes a manifest and returns its path.
func file(t *testing.T, name string, items ...*manifest.Item) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	require.NoError(t, err)
	w, err := manifest.NewWriter(f, manifest.Header{Backup: manifest.Backup{Name: "nightly"}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	for _, item := range items {
		require.NoError(t, w.Add(item))
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return path
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	statustest.Golden(t, name, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	path := file(t, "m.gz", shop()...)
	golden(t, "ls.txt", must(t, "ls", path))
	golden(t, "ls_count.txt", must(t, "ls", path, "--count"))

	var items []*manifest.Item
	require.NoError(t, json.Unmarshal([]byte(must(t, "ls", path, "-o", "json")), &items))
	require.Len(t, items, len(shop()))
	var fromYAML []*manifest.Item
	require.NoError(t, yaml.Unmarshal([]byte(must(t, "ls", path, "-o", "yaml")), &fromYAML))
	require.Equal(t, items, fromYAML)
	var counts []resourceCount
	require.NoError(t, json.Unmarshal([]byte(must(t, "ls", path, "--count", "-o", "json")), &counts))
	require.Equal(t, resourceCount{"configmaps", 2}, counts[0])

	empty := file(t, "empty.gz")
	require.Equal(t, "[]\n", must(t, "ls", empty, "-o", "json"))
	require.Equal(t, "[]\n", must(t, "ls", empty, "-o", "yaml"))
	require.Empty(t, must(t, "ls", empty, "-o", "name"))
	require.Equal(t, "[]\n", must(t, "ls", empty, "--count", "-o", "json"))
	require.Equal(t, "RESOURCE   ITEMS\nall        0\n", must(t, "ls", empty, "--count"))
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	path := file(t, "m.gz", shop()...)
	const workload = "persistentvolumeclaims/shop/data pods/shop/web-1-a deployments.apps/shop/web " +
		"replicasets.apps/shop/web-1"
	for name, tt := range map[string]struct{ args, want, warning string }{
		"namespace": {"--include-namespaces shop", "configmaps/shop/settings namespaces/shop " + workload, ""},
		"namespace pattern": {"--include-namespaces l*",
			"configmaps/lab/settings namespaces/lab clusters.cluster.x-k8s.io/lab/c planes.cluster.x-k8s.io/lab/c-cp", ""},
		"not a namespace": {"--exclude-namespaces lab --include-resources cm,ns",
			"configmaps/shop/settings namespaces/shop", ""},
		"no such namespace": {"--include-namespaces nowhere", "", ""},
		"kind":              {"--include-resources Deployment", "deployments.apps/shop/web", ""},
		"short names": {"--include-resources deploy,rs,po",
			"pods/shop/web-1-a deployments.apps/shop/web replicasets.apps/shop/web-1", ""},
		"plural with group": {"--include-resources replicasets.apps", "replicasets.apps/shop/web-1", ""},
		"custom kind":       {"--include-resources cluster", "clusters.cluster.x-k8s.io/lab/c", ""},
		"begin of a group":  {"--include-resources clusters.cluster", "clusters.cluster.x-k8s.io/lab/c", ""},
		"pattern of resources": {"--include-resources *.cluster.x-k8s.io",
			"clusters.cluster.x-k8s.io/lab/c planes.cluster.x-k8s.io/lab/c-cp", ""},
		"unknown resource": {
			"--include-resources pods,machines", "pods/shop/web-1-a",
			"Warning: the backup has no items of the resource machines\n",
		},
		"labels": {"-l app=web,app@notin@(x) --include-resources cm",
			"configmaps/lab/settings configmaps/shop/settings", ""},
		"either of labels": {"--or-selector team=a@or@app=none", "namespaces/shop", ""},
		"cluster-scoped ones": {"--include-namespaces shop --include-cluster-resources --include-resources pv,pvc",
			"persistentvolumeclaims/shop/data persistentvolumes/pv-1", ""},
		"only namespaced": {"--include-cluster-resources=false --include-resources pv,pvc",
			"persistentvolumeclaims/shop/data", ""},
		"scoped lists": {"--include-cluster-scoped-resources pv --include-namespace-scoped-resources pods",
			"namespaces/lab namespaces/shop persistentvolumes/pv-1 pods/shop/web-1-a", ""},
		"excluded scoped": {"--exclude-cluster-scoped-resources *", "configmaps/lab/settings configmaps/shop/settings " +
			workload + " clusters.cluster.x-k8s.io/lab/c planes.cluster.x-k8s.io/lab/c-cp", ""},
		"namespaces of labels": {"--include-namespaces shop -l none=such", "namespaces/shop", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"ls", path, "-o", "name"}
			for _, arg := range strings.Fields(tt.args) {
				args = append(args, strings.ReplaceAll(arg, "@", " "))
			}
			out := must(t, args...)
			require.Equal(t, lines(tt.want)+tt.warning, out)
		})
	}
}

// lines returns each word in a line of its own.
func lines(words string) string {
	var out strings.Builder
	for word := range strings.FieldsSeq(words) {
		out.WriteString(word + "\n")
	}
	return out.String()
}

func TestGet(t *testing.T) {
	t.Parallel()
	path := file(t, "m.gz", shop()...)
	golden(t, "get.txt", must(t, "get", path, "pods/shop/web-1-a"))
	golden(t, "get_referrers.txt", must(t, "get", path, "pvc", "shop/data", "--referrers"))
	var document struct {
		Name      string
		Edges     []manifest.Edge
		Referrers []contents.Referrer
	}
	require.NoError(t, json.Unmarshal([]byte(must(t, "get", path, "deploy", "web", "--referrers", "-o", "json")),
		&document))
	require.Equal(t, "web", document.Name)
	require.Len(t, document.Referrers, 1)
	require.Equal(t, "web-1", document.Referrers[0].Item.Name)
	for _, spelling := range []string{
		"deployments.apps/shop/web", "deployments/shop/web", "deployment/web", "Deployment.apps/web", "deploy/shop/web",
		"deployments.app/web",
	} {
		require.Contains(t, must(t, "get", path, spelling), "Item:         deployments.apps/shop/web\n", spelling)
	}
	for _, spelling := range []string{"clusters.cluster.x-k8s.io/lab/c", "Cluster/c", "cluster/lab/c",
		"clusters.cluster/c"} {
		require.Contains(t, must(t, "get", path, spelling), "Item:         clusters.cluster.x-k8s.io/lab/c\n", spelling)
	}
	for args, want := range map[string]string{
		"cm/settings":        "several items have this name, say which: configmaps/lab/settings, configmaps/shop/settings",
		"cm/nowhere/x":       "m.gz has no item cm/nowhere/x",
		"machines/x":         "m.gz has no item machines/x",
		"clusters/nowhere/c": "m.gz has no item clusters/nowhere/c",
		"web":                `item "web": want RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME`,
		"a/b/c/d":            `item "a/b/c/d": want RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME`,
	} {
		_, err := run(t, "get", path, args)
		require.ErrorContains(t, err, want, args)
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	path := file(t, "m.gz", shop()...)
	golden(t, "why.txt", must(t, "why", path, "pv/pv-1"))
	require.Contains(t, must(t, "why", path, "ns/shop"),
		"namespaces/shop: it is the namespace or the definition of other items\n")

	a, b := item("pods Pod shop/a", nil), item("pods Pod shop/b", nil)
	gone := manifest.Ref{Resource: "pods", Namespace: "shop", Name: "gone"}
	c := item("pods Pod shop/c", nil)
	refA, refB := a.Ref(), b.Ref()
	a.Included, b.Included = manifest.Inclusion{By: manifest.ByBlock, Of: &refB}, manifest.Inclusion{By: manifest.ByBlock,
		Of: &refA}
	c.Included = manifest.Inclusion{By: manifest.ByAction, Plugin: "x.y/z", Of: &gone}
	path = file(t, "odd.gz", a, b, c, item("pods Pod shop/d", nil))
	require.Contains(t, must(t, "why", path, "pods/shop/a"), "pods/shop/a: it is requested in a circle\n")
	require.Contains(t, must(t, "why", path, "pods/shop/c"), "pods/shop/gone: it is not in the backup\n")
}

func TestDiff(t *testing.T) {
	t.Parallel()
	before, after := shop(), shop()
	after[3].Labels = map[string]string{"app": "web", "tier": "front"}
	after[7].Annotations = map[string]string{"note": strings.Repeat("long ", 40)}
	after[8].UID = "another"
	a, b := file(t, "a.gz", before...), file(t, "b.gz",
		append(after[4:], after[3], item("secrets Secret shop/new", nil))...)
	out := must(t, "diff", a, b)
	golden(t, "diff.txt", out)
	require.Equal(t, "0 added, 0 gone, 0 changed\n", must(t, "diff", a, a, "--exit-code"))
	out, err := run(t, "diff", a, b, "--exit-code", "-o", "name", "--include-resources", "secrets,pods")
	require.ErrorIs(t, err, command.ErrQuiet)
	require.Equal(t, "pods/shop/web-1-a\nsecrets/shop/new\n", out)
	var changes []contents.Change
	require.NoError(t, json.Unmarshal([]byte(must(t, "diff", a, b, "-o", "json", "--include-resources", "pods,rs")),
		&changes))
	require.Equal(t, []string{"labels.tier"}, changes[0].Fields)
	require.Equal(t, []string{"uid"}, changes[1].Fields)
	_, err = run(t, "diff", "-", "-")
	require.EqualError(t, err, "stdin can be read once only")
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	other := shop()
	other[3].UID = "another"
	a, b, c := file(t, "a.gz", shop()[:6]...), file(t, "b.gz", other[2:8]...), file(t, "c.gz", shop()[5:]...)
	short := strings.NewReplacer(filepath.Dir(a)+"/", "", filepath.Dir(b)+"/", "", filepath.Dir(c)+"/", "")
	golden(t, "overlap.txt", short.Replace(must(t, "overlap", a, b, c)))
	require.Contains(t, must(t, "overlap", a, file(t, "none.gz")), "The backups have no items in common.\n")
	require.Equal(t, "pods/shop/web-1-a\n", must(t, "overlap", a, b, "-o", "name", "--include-resources", "po"))
	var items []shared
	require.NoError(t, json.Unmarshal([]byte(must(t, "overlap", a, b, "-o", "json")), &items))
	require.Len(t, items, 4)
	require.Equal(t, []string{a, b}, items[0].In)
}

func TestAcceptManifest_Graph(t *testing.T) {
	t.Parallel()
	path := file(t, "nightly.gz", shop()...)
	golden(t, "graph.svg", must(t, "graph", path, "-o", "svg"))
	golden(t, "graph.txt", must(t, "graph", path))
	golden(t, "graph_web.txt", must(t, "graph", path, "deploy", "shop/web", "--referrers"))
	golden(t, "graph_pod.svg", must(t, "graph", path, "po/web-1-a", "-o", "svg"))

	var g struct {
		Notes []string
		Nodes []struct {
			Resource, Name string
			Missing, Asked bool
			Cycle          int
		}
		Edges []any
	}
	graph := func(args ...string) {
		t.Helper()
		g.Notes, g.Nodes, g.Edges = nil, nil, nil
		require.NoError(t, json.Unmarshal([]byte(must(t, append([]string{"graph", path, "-o", "json"}, args...)...)), &g))
	}
	graph("po/web-1-a", "--depth", "1")
	require.Len(t, g.Nodes, 4)
	require.Equal(t, []string{
		"2 dependencies to other items of the backup left out.", "1 object that items depend on is not in the backup.",
	}, g.Notes)
	graph("--include-namespaces", "lab")
	require.Len(t, g.Nodes, 4)
	require.Len(t, g.Edges, 2)
	require.Equal(t, []string{"A cycle of 2 items: clusters.cluster.x-k8s.io/lab/c, planes.cluster.x-k8s.io/lab/c-cp."},
		g.Notes)
	require.Contains(t, must(t, "graph", path, "-o", "mermaid", "--limit", "3"), "13 objects are more than 3")

	for args, want := range map[string]string{
		"-o png":                   `--output "png": want tree, dot, mermaid, svg, html, json or yaml`,
		"po/web-1-a -l app=web":    "filters cannot be used together with an item",
		"--depth 2":                "--depth needs an item",
		"--referrers -o svg":       "so does --referrers unless the output is a tree",
		"po/web-1-a --depth=-1":    "want a number that is not negative",
		"pods/nowhere -o dot":      "nightly.gz has no item pods/nowhere",
		"--or-selector a=b -l c=d": "--selector and --or-selector cannot be used together",
	} {
		_, err := run(t, append([]string{"graph", path}, strings.Fields(args)...)...)
		require.ErrorContains(t, err, want, args)
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	path := file(t, "m.gz", shop()...)
	indexed, err := os.ReadFile(path)
	require.NoError(t, err)
	zipped, err := gzip.NewReader(bytes.NewReader(indexed))
	require.NoError(t, err)
	plain, err := io.ReadAll(zipped)
	require.NoError(t, err)
	var again bytes.Buffer
	w := gzip.NewWriter(&again)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	want := must(t, "ls", path, "-o", "name")
	for name, content := range map[string][]byte{"as written": indexed, "compressed again": again.Bytes(),
		"not compressed": plain} {
		for _, source := range []string{"file", "stdin"} {
			t.Run(name+", from "+source, func(t *testing.T) {
				t.Parallel()
				path := "-"
				if source == "file" {
					path = filepath.Join(t.TempDir(), "m.json")
					require.NoError(t, os.WriteFile(path, content, 0o600))
				}
				run := func(verb string, args ...string) string {
					var out bytes.Buffer
					app := &command.App{Streams: command.Streams{Out: &out, Err: &out}, Args: append([]string{"manifest", verb, path},
						args...)}
					root := command.NewRoot(app, NewCommand(app))
					root.SetIn(bytes.NewReader(content))
					require.NoError(t, root.ExecuteContext(t.Context()))
					return out.String()
				}
				require.Equal(t, want, run("ls", "-o", "name"))
				require.Contains(t, run("get", "deploy/web"), "deployments.apps/shop/web")
				require.Contains(t, run("get", "cluster/c"), "clusters.cluster.x-k8s.io/lab/c")
				require.Contains(t, run("why", "pv/pv-1"), "pods/shop/web-1-a: the filters of the backup select it")
			})
		}
	}
}

func TestArchiveIsASource(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nightly.tar.gz")
	f, err := os.Create(path)
	require.NoError(t, err)
	zipped := gzip.NewWriter(f)
	w := tar.NewWriter(zipped)
	for name, content := range map[string]string{
		"metadata/version": "1.1.0",
		"resources/pods/namespaces/shop/web.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},` +
			`"spec":{"serviceAccountName":"web"}}`,
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644,
			Size: int64(len(content))}))
		_, err := w.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, zipped.Close())
	require.NoError(t, f.Close())
	out := must(t, "get", path, "pods/shop/web")
	require.Contains(t, out, "nightly.tar.gz: has no manifest, reading its archive\n")
	require.Contains(t, out, "serviceaccounts/shop/web")
	require.Contains(t, out, "Included:     nobody has recorded why\n")

	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content[:len(content)-20], 0o600))
	_, err = run(t, "ls", path)
	require.ErrorContains(t, err, "nightly.tar.gz: make a manifest from the archive")
}

func TestErrorsNameFileAndPlace(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(file(t, "m.gz", shop()...))
	require.NoError(t, err)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 0xff
	for name, tt := range map[string]struct{ content, want string }{
		"empty":          {"", "bad.gz: "},
		"not JSON":       {"hello", "bad.gz: manifest: "},
		"other JSON":     {`{"v1/Pod":["shop/web"]}`, `want "manifest": 1 first in it`},
		"newer":          {`{"manifest":9,"items":[]}`, "version 9"},
		"truncated":      {string(good[:len(good)/2]), "bad.gz: manifest: "},
		"flipped":        {string(flipped), "bad.gz: "},
		"no items field": {`{"manifest":1}`, "bad.gz: manifest: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "bad.gz")
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			for _, args := range [][]string{{"ls"}, {"ls", "--count"}, {"graph"}, {"why", "pods/shop/web"}} {
				_, err := run(t, append([]string{args[0], path}, args[1:]...)...)
				require.ErrorContains(t, err, tt.want, args)
			}
		})
	}
	_, err = run(t, "ls", "/no/such/file.gz")
	require.ErrorContains(t, err, "/no/such/file.gz: open /no/such/file.gz: no such file")
}

func TestForeignTextDoesNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[2J\u202e\u009b\r\nx\U000e0001"
	bad := item("pods Pod shop/web", map[string]string{"a": evil}, manifest.Edge{Type: evil, Path: evil, Plugin: evil,
		To: manifest.Ref{Kind: evil, Name: evil}})
	bad.Annotations, bad.Included = map[string]string{evil: evil}, manifest.Inclusion{By: evil, Plugin: evil,
		Of: &manifest.Ref{Name: evil, Kind: evil}}
	plain := item("pods Pod shop/web", nil)
	path, other := file(t, "m.gz", bad), file(t, "plain.gz", plain)
	for _, args := range [][]string{
		{"ls", path}, {"ls", path, "-o", "json"}, {"ls", path, "-o", "yaml"}, {"get", path, "pods/web"}, {"get", path,
			"pods/web", "-o", "yaml"},
		{"why", path, "pods/web"}, {"why", path, "pods/web", "-o", "json"}, {"diff", path, other}, {"diff", other, path, "-o",
			"json"}, {"overlap", path, path},
		{"graph", path}, {"graph", path, "-o", "json"}, {"graph", path, "-o", "dot"}, {"graph", path, "-o", "mermaid"},
		{"graph", path, "-o", "html"},
	} {
		out := must(t, args...)
		require.NotEmpty(t, out)
		for _, control := range []string{"\x1b", "\u202e", "\u009b", "\r", "\U000e0001"} {
			require.NotContains(t, out, control, args)
		}
	}
	var items []*manifest.Item
	require.NoError(t, json.Unmarshal([]byte(must(t, "ls", path, "-o", "json")), &items))
	require.Equal(t, evil, items[0].Labels["a"], "JSON loses nothing")
	require.NoError(t, yaml.Unmarshal([]byte(must(t, "ls", path, "-o", "yaml")), &items))
	require.Equal(t, evil, items[0].Labels["a"], "YAML loses nothing")
}
