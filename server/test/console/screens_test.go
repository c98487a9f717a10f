package console_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/console/picture"
	"github.com/cleat-dev/cleat/server/test/site"
)

// screen is a page that tests look at. Its golden files have its name.
type screen struct{ name, path string }

// screens are all pages, with what an operator of a shop sees.
func screens(shop string) []screen {
	item := url.QueryEscape("pods/" + shop + "/web")
	const contents = "/backups/nightly-2/"
	return []screen{
		{"overview", "/"}, {"queue", "/queue"}, {"explain", "/queue/weekly"},
		{"backups", "/backups"}, {"backup", "/backups/nightly-2"}, {"backup-waits", "/backups/weekly"},
		{"backup-runs", "/backups/archive"}, {"backup-log", "/backups/nightly-2/log"},
		{"backup-cancel", "/backups/weekly/cancel"}, {"backup-cancel-refused", "/backups/nightly-2/cancel"},
		{"backup-delete", "/backups/nightly-2/delete"}, {"backup-restore", "/backups/nightly-2/restore"},
		{"new-backup", "/new-backup?from-schedule=nightly"},
		{"contents", contents + "contents"}, {"contents-namespace", contents + "contents?namespace=" + shop},
		{"contents-items", contents + "contents?list=yes&include-namespaces=" + shop},
		{"item", contents + "item?item=" + item},
		{"item-content", contents + "item/content?item=" + item},
		{"graph", contents + "graph?include-namespaces=" + shop},
		{"graph-item", contents + "graph?item=" + item + "&find=key"},
		{"difference-with", contents + "difference"}, {"difference", contents + "difference?with=nightly-1"},
		{"restores", "/restores"}, {"restore", "/restores/trial"}, {"restore-log", "/restores/trial/log"},
		{"restore-cancel", "/restores/trial/cancel"}, {"restore-delete", "/restores/trial/delete"},
		{"operations", "/operations"}, {"loads", "/loads"}, {"schedules", "/schedules"}, {"schedule", "/schedules/nightly"},
		{"schedule-pause", "/schedules/nightly/pause"}, {"locations", "/locations"}, {"plugins", "/plugins"},
		{"plugin", "/plugins/cleat.dev%2Fs3"},
	}
}

// pictures are the screens of which there are pictures too, by their view and name.
var pictures = map[string]string{
	"desk/overview":   "../../docs/images/console.png",
	"desk/graph-item": "testdata/pictures/graph.png",
	"dark/backup":     "testdata/pictures/backup-dark.png",
	"phone/queue":     "testdata/pictures/queue-phone.png",
}

// compareWith compares with the files in testdata and with the pictures.
func compareWith() picture.Golden {
	return picture.Golden{Update: *site.Update, Differs: "../../../bin/screens", Accept: "make screens"}
}

// gallery is a site with a server that shows something on each page.
type gallery struct {
	*site.Site
	shop  string
	names [][2]string // of this run, and what takes their place
}

// newGallery makes two backups of a shop and a restore. The only slot is taken by another backup, and one waits.
func newGallery(t *testing.T) *gallery {
	t.Helper()
	s := site.New(t, "cleat.dev/s3")
	shop := s.Workload(3)
	for _, object := range []string{
		`{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: %s}, stringData: {password: very-secret}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: %s, labels: {app: web}}, spec: {
			containers: [{name: web, image: shop, envFrom: [{secretRef: {name: key}}, {configMapRef: {name: item-a}}]}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s}, spec: {selector: {app: web},
			ports: [{port: 80}]}}`,
	} {
		s.Put(fmt.Sprintf(object, shop))
	}
	s.Eventually("the account of the namespace is there", func(ctx context.Context) (bool, error) {
		var account corev1.ServiceAccount
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: shop, Name: "default"}, &account)
		return err == nil, nil
	})
	s.Serve("--concurrent-backups", "1")
	s.Available()
	due := fmt.Sprintf("0 %d * * *", (time.Now().Hour()+12)%24) // not during the test
	// On a busy machine, controllers of Kubernetes write events about the service.
	s.Must("schedule", "create", "nightly", "--schedule", due, "--include-namespaces", shop,
		"--exclude-resources", "events")
	s.Must("backup", "create", "nightly-1", "--from-schedule", "nightly", "--wait")
	s.Put(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: %s}}`, shop))
	s.Must("backup", "create", "nightly-2", "--from-schedule", "nightly", "--wait")
	first := s.Backup("nightly-1") // which was made yesterday
	before, yesterday := first.DeepCopy(), metav1.NewTime(time.Now().Add(-24*time.Hour))
	first.Status.StartTimestamp, first.Status.CompletionTimestamp = &yesterday, &yesterday
	require.NoError(t, s.Client.Patch(t.Context(), first, client.MergeFrom(before)))
	s.Must("restore", "create", "trial", "--from-backup", "nightly-2", "--namespace-mappings", shop+":"+shop+"-2",
		"--wait")
	hold(s, "archive")
	var away velerov1.BackupStorageLocation
	s.Eventually("the other location was validated", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("away"), &away)
		return away.Status.LastValidationTime != nil, err
	})
	whole := away.DeepCopy()
	away.Status.Message = "the bucket cannot be reached" // in a picture, a path of the test says little
	require.NoError(t, s.Client.Patch(t.Context(), &away, client.MergeFrom(whole)))
	s.Must("backup", "create", "weekly", "--include-namespaces", shop)
	s.AwaitPosition("weekly", 1)
	return &gallery{s, shop, [][2]string{{shop, "shop"}, {s.Namespace, "velero"},
		{filepath.Base(s.BucketDir), "backups"}, {due, "0 3 * * *"}}}
}

// console opens a console that knows no namespaces and claims but those of the gallery: other tests have theirs on the
// same cluster.
func (g *gallery) console() *console {
	g.T.Helper()
	gate := &site.Gate{Answer: func(_ http.ResponseWriter, r *http.Request) bool {
		query := r.URL.Query()
		switch r.URL.Path {
		case "/api/v1/namespaces":
			query.Set("labelSelector", fmt.Sprintf("kubernetes.io/metadata.name in (default,%s,%s,%s-2)", g.Namespace, g.shop,
				g.shop))
		case "/api/v1/persistentvolumeclaims":
			query.Set("fieldSelector", "metadata.namespace="+g.shop)
		default:
			return false
		}
		r.URL.RawQuery = query.Encode()
		return false
	}}
	kubeconfig, _ := gate.Behind(g.T, g.Cluster)
	return open(g.T, g.Site, "--kubeconfig", kubeconfig)
}

var (
	//go:embed testdata/still.js
	stillScript string
	//go:embed testdata/layout.js
	layoutScript string
)

// settled is true when an open page shows what it has, and waits for nothing.
const settled = `document.readyState === "complete" &&
	(window.feeds || []).every(f => f.came || f.readyState === EventSource.CLOSED) &&
	!/being fetched|not answered yet|no answer within|being read|being simulated/.test(document.body.innerText)`

// settle opens a page and waits until it shows what it has.
func (b *browser) settle(path string) {
	b.t.Helper()
	b.open(path)
	b.until(settled)
}

// compare compares the page that is open with its golden files. It does not change any more.
func (b *browser) compare(view, name string, names [][2]string) {
	b.t.Helper()
	pairs, err := json.Marshal(names)
	require.NoError(b.t, err)
	b.do(command{Do: "eval", Script: "(" + trim(stillScript) + ")(" + string(pairs) + ")"})
	layout := eval[string](b, "("+trim(layoutScript)+")()")
	compareWith().Layout(b.t, filepath.Join("testdata", view, name+".txt"), layout)
	b.picture(view, name)
}

// trim returns a script without the comment before its function.
func trim(script string) string { return script[strings.Index(script, "\n(")+1:] }

// picture compares the window with its picture, if there is one. CLEAT_TEST_PICTURES names a folder for pictures of all
// pages.
func (b *browser) picture(view, name string) {
	b.t.Helper()
	golden, all := pictures[view+"/"+name], os.Getenv("CLEAT_TEST_PICTURES")
	if golden == "" && all == "" {
		return
	}
	file := filepath.Join(b.t.TempDir(), "shot.png")
	if all != "" {
		file = filepath.Join(all, view+"-"+name+".png")
	}
	b.do(command{Do: "shot", Path: file})
	if golden != "" {
		shot, err := os.ReadFile(file)
		require.NoError(b.t, err)
		compareWith().Picture(b.t, golden, shot)
	}
}

// TestAcceptConsole_Pages looks at each page on a desk: it can be used by all in light and in dark, has no errors, asks
// nobody else for anything, and looks as it did. "make screens" accepts what it looks like now.
func TestAcceptConsole_Pages(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	c := g.console()
	b := browse(t, c)
	all := screens(g.shop)
	requireAll(t, c.user(), all)
	for _, at := range all {
		b.view(1200, 1000, false, false)
		b.settle(at.path)
		b.requireUsable(at.path)
		b.compare("desk", at.name, g.names)
		b.view(1200, 1000, true, false)
		b.requireNoFindings(at.path+" in dark", "color-contrast")
		b.picture("dark", at.name)
	}

	b.view(1200, 1000, false, false)
	// the browser would have told of what the policy forbids, and axe of what some people cannot read
	told := b.try(command{Do: "eval", Script: `new Promise(done => {
		document.addEventListener("securitypolicyviolation", (e) => done(e.violatedDirective));
		document.head.append(document.createElement("style"));
		document.head.lastChild.textContent = "main { color: red }";
	})`})
	require.JSONEq(t, `"style-src-elem"`, string(told.Value))
	require.Contains(t, told.Log[0], "Content Security Policy")
	b.do(command{Do: "eval", Script: `document.querySelector("h1").style.color = "#ddd"`})
	require.Contains(t, string(b.axe()), "color-contrast")

	b.view(1200, 1000, false, true)
	b.open("/queue")
	b.shows("Without scripts this page stays as it is")
	b.shows("weekly")
}

// TestAcceptConsole_Phone looks at each page on a phone: nothing is wider than the window, and what has to be scrolled
// can be.
func TestAcceptConsole_Phone(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	b := browse(t, g.console())
	b.view(360, 740, false, false)
	for _, at := range screens(g.shop) {
		b.settle(at.path)
		b.requireNarrow(at.path)
		b.requireNoFindings(at.path+" on a phone", "scrollable-region-focusable", "meta-viewport")
		b.compare("phone", at.name, g.names)
	}
}

var (
	href = regexp.MustCompile(`href="(/[^"]*)"`)
	// named matches a path with the name of an object in it.
	named = regexp.MustCompile(`^/(queue|backups|restores|schedules)/[^/]+`)
)

// shape returns the path of a page without the name of its object and without parameters.
func shape(link string) string {
	path, _, _ := strings.Cut(link, "?")
	if strings.HasPrefix(path, "/plugins/") {
		return "/plugins/NAME"
	}
	return named.ReplaceAllString(path, "/$1/NAME")
}

// requireAll follows the links of all pages, and requires that each leads to a page that is a screen.
func requireAll(t *testing.T, v *visitor, all []screen) {
	t.Helper()
	known, seen, queue := map[string]bool{}, map[string]bool{}, []string{}
	for _, at := range all {
		known[shape(at.path)] = true
		queue = append(queue, at.path)
	}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		page := v.get(path)
		require.Equal(t, http.StatusOK, page.code, path)
		for _, found := range href.FindAllStringSubmatch(page.text, -1) {
			link := html.UnescapeString(found[1])
			if to := shape(link); !seen[to] && !strings.HasPrefix(to, "/assets/") {
				seen[to] = true
				require.True(t, known[to], "%s leads to %s: it lacks in the list of screens", path, link)
				queue = append(queue, link)
			}
		}
	}
	require.Greater(t, len(seen), 20)
}
