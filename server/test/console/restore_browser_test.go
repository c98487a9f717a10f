package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/test/site"
)

// follow clicks on the link or button with a text.
func (b *browser) follow(text string) {
	b.t.Helper()
	const named = `[...document.querySelectorAll("main a, main button")].find(e => e.innerText.trim() === %q)`
	found := fmt.Sprintf(named, text)
	b.until(found)
	b.do(command{Do: "eval", Script: `void setTimeout(() => ` + found + `.click())`})
}

// at waits until the browser is at a path.
func (b *browser) at(path string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`location.pathname === %q && document.readyState === "complete"`, path))
}

// TestAcceptConsole_Restore restores a backup in a real browser, by clicks: what is chosen in its contents, into
// another namespace, after an error and a dry run.
func TestAcceptConsole_Restore(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	shop := s.Workload(3)
	s.Serve()
	s.Available()
	s.Must("backup", "create", "done", "--include-namespaces", shop, "--wait")
	b := browse(t, open(t, s))
	usable := func(step string) {
		t.Helper()
		for _, width := range []int{1200, 360} {
			b.view(width, 800, width < 600, false)
			b.until(`document.getAnimations().length === 0`) // colors fade
			b.requireUsable(step)
			if folder := os.Getenv("CLEAT_TEST_PICTURES"); folder != "" {
				b.do(command{Do: "shot", Path: filepath.Join(folder, fmt.Sprintf("%s %d.png", step, width))})
			}
		}
		b.view(1200, 800, false, false)
	}

	b.open("/backups")
	b.follow("done")
	b.at("/backups/done")
	b.follow("What is in it")
	b.at("/backups/done/contents")
	b.follow(shop)
	b.follow("configmaps")
	b.until(`location.search.includes("configmaps")`)
	b.follow("Restore these")
	b.at("/backups/done/restore")
	require.Equal(t, shop, eval[string](b, `document.getElementById("include-namespaces").value`))
	usable("the form")

	enter := func(text string) {
		t.Helper()
		b.do(command{Do: "eval", Script: `const i = document.getElementById("namespace-mappings"); i.focus(); i.select(); 0`})
		b.keys(text + "\r") // as its button: nothing is started
	}
	enter("nowhere")
	b.shows("want FROM:TO")
	require.Equal(t, "nowhere", eval[string](b, `document.getElementById("namespace-mappings").value`))
	usable("the form with an error")
	enter(shop + ":" + shop + "-copy")
	b.at("/backups/done/restore/dry-run")
	b.shows("Items that would be created")
	b.shows("configmaps/" + shop + "-copy/item-a")
	usable("the dry run")
	b.open("/new-backup?from-schedule=nightly&ttl=soon")
	usable("the form of a backup")
	b.do(command{Do: "eval", Script: "void setTimeout(() => history.back())"})
	b.follow("Start the restore")
	b.until(`location.pathname.startsWith("/restores/done-")`)
	b.until(`document.querySelector("#page .mood.good")?.innerText === "Completed"`)
	usable("the restore")
	var restored corev1.ConfigMap
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: shop + "-copy", Name: "item-a"}, &restored))
}
