package console_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptConsole_Contents looks into backups: a real one, one of 10,000 items, and such as have no manifest, a
// damaged one, or are deleted meanwhile, with accounts that may fetch it and that may not.
func TestAcceptConsole_Contents(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	shop := s.Workload(3)
	const evil = `<script>alert("x")</script>`
	s.Put(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"key","namespace":"` + shop +
		`","annotations":{"example.com/part":"of-the-content"}},"stringData":{"password":"very-secret"}}`)
	s.Put(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"` + shop + `","labels":{"app":"web"},
		"annotations":{"example.com/note":"<script>alert(1)</script>"}},"spec":{"containers":[{"name":"c",
		"image":"i","envFrom":[{"secretRef":{"name":"key"}}]}]}}`)
	many := manifestOf(t, 10_000, evil)
	s.VeleroMade("stock", nil, false)
	s.VeleroMade("many", map[string]string{"-manifest.json.gz": many}, false)
	s.VeleroMade("damaged", map[string]string{"-manifest.json.gz": many[:len(many)/2] + "\n{\n"}, false)
	c := open(t, s, "--recheck", "1s")
	user := c.user()
	cluster := inCluster(t, s, "--recheck", "1s")
	downloads := rbacv1.PolicyRule{APIGroups: []string{"velero.io"}, Resources: []string{"downloadrequests"},
		Verbs: []string{"create"}}
	reader, fetcher := cluster.account(account(s, "reader", reads())),
		cluster.account(account(s, "fetcher", reads(), downloads))

	// before the server runs, the page waits for the manifest
	waiting := user.events("/backups/many/contents")
	waiting.until("is being fetched")
	s.Serve()
	s.Available()
	waiting.until("10001 items.")
	s.Must("backup", "create", "orders", "--include-namespaces", shop, "--wait")

	// the tree, down to an item, and what it depends on
	base := "/backups/orders/"
	s.Eventually("the manifest is there", logHas(user, base+"contents", shop))
	require.Contains(t, user.get(base+"contents?namespace="+shop).text, ">secrets</a>")
	require.Contains(t, user.get(base+"contents?namespace="+shop+"&resource=pods").text, "item=pods%2F"+shop+"%2Fweb")
	require.Contains(t, user.get(base+"contents?selector=app%3Dweb&list=yes").text, "item=pods%2F"+shop+"%2Fweb")
	pod := base + "item?item=" + url.QueryEscape("pods/"+shop+"/web")
	page := user.get(pod)
	require.Equal(t, http.StatusOK, page.code, page.text)
	for _, want := range []string{"secrets/" + shop + "/key", "spec.containers[0].envFrom[0].secretRef.name",
		"the filters of the backup select it", "app=web", "&lt;script&gt;alert(1)"} {
		require.Contains(t, page.text, want)
	}
	content := base + "item/content?item="
	page = user.get(content + url.QueryEscape("pods/"+shop+"/web"))
	require.Contains(t, page.text, "image: i")
	require.Contains(t, page.text, "&lt;script&gt;alert(1)")
	require.Contains(t, user.get(content+url.QueryEscape("Secret/"+shop+"/key")).text, "Secrets is not shown")
	secret := base + "item?item=" + url.QueryEscape("Secret/"+shop+"/key")
	page = user.get(secret)
	require.Contains(t, page.text, "pods/"+shop+"/web", "what depends on it")
	require.Contains(t, page.text, "example.com/part=&lt;hidden&gt;")
	var document struct {
		Item      struct{ Annotations map[string]string }
		Referrers []struct{ Item struct{ Name string } }
		Chain     []any
	}
	answer := user.json(secret, &document)
	require.Equal(t, "web", document.Referrers[0].Item.Name)
	require.Equal(t, "<hidden>", document.Item.Annotations["example.com/part"])
	require.Len(t, document.Chain, 1)
	for _, text := range []string{page.text, answer.text} {
		require.NotContains(t, text, "of-the-content")
		require.NotContains(t, text, "very-secret")
	}
	graph := user.get(base + "graph?item=" + url.QueryEscape("Secret/"+shop+"/key") + "&find=WEB").text
	require.Contains(t, graph, `<svg xmlns="http://www.w3.org/2000/svg" class="graph"`)
	require.Contains(t, graph, "1 of ")
	require.NotRegexp(t, `<[^>]*\s(on[a-z]+|style)="`, graph, "the policy of the console forbids them")
	style := regexp.MustCompile(`/assets/[0-9a-f]+-pages\.css`).FindString(graph)
	require.Contains(t, user.get(style).text, ".graph text")

	// the difference to another backup, which a list offers
	s.Put(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"later","namespace":"` + shop + `"}}`)
	s.Must("backup", "create", "orders-2", "--include-namespaces", shop, "--wait")
	list := user.get("/backups/orders-2/difference").text
	require.Contains(t, list, `href="/backups/orders-2/difference?with=orders"`)
	require.NotContains(t, list, "with=orders-2")
	different := "/backups/orders-2/difference?with=orders&search=later"
	s.Eventually("both manifests are there", logHas(user, different, "configmaps/"+shop+"/later"))
	require.Contains(t, user.get(different).text, "only in orders-2")

	// 10,000 items, in pages
	for query, want := range map[string]string{
		"contents": "10001 items.", "contents?namespace=team-003": "1000 items.",
		"contents?namespace=team-003&resource=configmaps":    "item-03049",
		"contents?search=item-0777&list=yes":                 "item-07770",
		"contents?selector=app%3Dapp-7&include-resources=cm": "1000 items.",
		"graph": "9901 more are not shown", "contents?include-resources=nothing.example.com": "has no items of the resource",
		"item?item=configmaps/team-000/item-00000": "More of what depends on it",
	} {
		page := user.get("/backups/many/" + query)
		require.Equal(t, http.StatusOK, page.code, "%s: %s", query, page.text)
		require.Contains(t, page.text, want, query)
		require.NotContains(t, page.text, evil, query)
		require.LessOrEqual(t, page.size, 20<<10, query)
		t.Logf("%s took %s and has %d bytes", query, page.took, page.size)
		require.Equal(t, http.StatusOK, user.json("/backups/many/"+query, &map[string]any{}).code, query)
	}
	for query, code := range map[string]int{
		"contents?include-namespace=a": http.StatusBadRequest, "contents?selector=%28": http.StatusBadRequest,
		"contents?list=yes&after=x": http.StatusBadRequest, "item?item=x": http.StatusBadRequest,
		"item?item=pods/a/b": http.StatusNotFound, "graph?item=pods/a/b&search=c": http.StatusBadRequest,
		"graph?depth=2": http.StatusBadRequest, "difference?with=many": http.StatusBadRequest,
		"difference?with=none": http.StatusNotFound,
	} {
		page := user.get("/backups/many/" + query)
		require.Equal(t, code, page.code, "%s: %s", query, page.text)
	}

	// what has no manifest yet, or never, and what cannot be read
	running := hold(s, "held")
	require.Contains(t, user.get("/backups/"+running.Name+"/contents").text, "the phase is InProgress")
	s.Eventually("the server has answered", logHas(user, "/backups/stock/contents", "has no manifest"))
	s.Eventually("the damage is found", logHas(user, "/backups/damaged/contents", `class="problem">damaged: `))

	// rights
	refused := reader.get("/backups/orders/contents")
	require.Equal(t, http.StatusForbidden, refused.code)
	require.Contains(t, refused.text, "you may not create downloadrequests in namespace "+s.Namespace)
	s.Eventually("the fetcher sees it", logHas(fetcher, "/backups/orders/contents", shop))
	notIn := fetcher.get(content + url.QueryEscape("pods/"+shop+"/web"))
	require.Equal(t, http.StatusForbidden, notIn.code)
	require.Contains(t, notIn.text, "you may not get pods/"+shop+"/web in the cluster")
	open := fetcher.events("/backups/orders/contents")
	open.until(shop)
	var role rbacv1.Role
	require.NoError(t, s.Client.Get(t.Context(), s.Key("fetcher"), &role))
	role.Rules = role.Rules[:1]
	require.NoError(t, s.Client.Update(t.Context(), &role))
	s.Eventually("the right is gone", logHas(fetcher, "/backups/orders/contents", "you may not create downloadrequests"))

	// deleted meanwhile
	gone := user.events(pod)
	gone.until("spec.containers[0]")
	s.Must("backup", "delete", "orders", "--confirm")
	s.AwaitGone(&velerov1.Backup{}, "orders")
	gone.until("there is no backup orders")
}

// manifestOf returns the text of a manifest of one Secret and so many config maps, in namespaces of 1,000, which all
// depend on the first one.
func manifestOf(t *testing.T, items int, note string) string {
	t.Helper()
	var zipped bytes.Buffer
	w, err := manifest.NewWriter(&zipped, manifest.Header{Backup: manifest.Backup{Name: "many"}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	included := manifest.Inclusion{By: manifest.ByFilters}
	require.NoError(t, w.Add(&manifest.Item{APIVersion: "v1", Resource: "secrets", ItemKind: "Secret",
		Namespace: "team-000", Name: "key", Annotations: map[string]string{"note": note}, Included: included}))
	for i := range items {
		item := &manifest.Item{APIVersion: "v1", Resource: "configmaps", ItemKind: "ConfigMap", Included: included,
			Namespace: fmt.Sprintf("team-%03d", i/1000), Name: fmt.Sprintf("item-%05d", i),
			Labels: map[string]string{"app": fmt.Sprintf("app-%d", i%10), "note": note}}
		if i > 0 {
			item.Edges = []manifest.Edge{{Type: manifest.Reference, Path: note, To: manifest.Ref{Resource: "configmaps",
				Namespace: "team-000", Name: "item-00000"}}}
		}
		require.NoError(t, w.Add(item))
	}
	require.NoError(t, w.Close())
	unzipped, err := gzip.NewReader(&zipped)
	require.NoError(t, err)
	text, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	return string(text)
}
