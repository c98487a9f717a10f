package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Keys, as server/test/browser types them.
const (
	tabKey, enter = "\t", "\r"
	arrowRight    = "\u0303"
)

// focused is a script that returns what the focus is on: the name of a field, "region" and its label, or the text of a
// link or a button.
const focused = `((on) => on.matches("input, select") ? on.name :
	on.matches("[role=region]") ? "region " + on.ariaLabel : (on.innerText || "").trim())(document.activeElement)`

// reach moves the focus to something with the tab key alone, and requires that the focus can be seen there.
func (b *browser) reach(what string) {
	b.t.Helper()
	for range 80 {
		if eval[string](b, focused) == what {
			require.NotEqual(b.t, "none", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"),
				"the focus on %q can be seen", what)
			return
		}
		b.keys(tabKey)
	}
	require.Fail(b.t, "the keyboard does not reach it", what)
}

// press reaches a link or a button and presses it.
func (b *browser) press(text string) { b.t.Helper(); b.reach(text); b.keys(enter) }

// arrives waits until the browser is at a path.
func (b *browser) arrives(path string) {
	b.t.Helper()
	b.until(`location.pathname === "` + path + `" && document.readyState === "complete"`)
}

// TestAcceptConsole_Keyboard does with the keyboard alone what can be done with a mouse.
func TestAcceptConsole_Keyboard(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	b := browse(t, open(t, s))

	// past the navigation, to a backup, which is deleted after a question
	b.settle("/backups")
	b.keys(tabKey)
	require.Equal(t, "Skip to the content", eval[string](b, focused), "it is the first one")
	require.Greater(t, eval[float64](b, "document.activeElement.getBoundingClientRect().right"), 0.0, "it can be seen")
	b.keys(enter)
	b.until(`document.activeElement.id === "main"`)
	b.press("waits")
	b.arrives("/backups/waits")
	b.press("Cancel")
	b.arrives("/backups/waits/cancel")
	b.press("Cancel waits")
	b.arrives("/backups/waits")
	b.shows("Failed")

	// a search, with what is found
	b.settle("/backups")
	b.reach("search")
	b.keys("done" + enter)
	b.until(`location.search === "?search=done" && document.querySelectorAll("#page tbody tr").length === 1`)

	// a schedule is paused, and goes on
	b.open("/schedules/nightly")
	b.press("Pause")
	b.arrives("/schedules/nightly/pause")
	b.press("Pause nightly")
	b.arrives("/schedules/nightly")
	b.shows("paused")

	// tables and pictures that are wider than a phone are moved with the arrows, and boxes are links
	b.view(360, 740, false, false)
	b.settle("/backups")
	b.reach("region Backups")
	b.scrolls()
	b.settle("/backups/done/graph")
	b.reach("find")
	b.keys("item-a" + enter)
	b.until(`new URLSearchParams(location.search).get("find") === "item-a"`)
	b.until(settled)
	b.shows("with a thick border")
	b.reach("region Picture")
	b.scrolls()
	require.True(t, eval[bool](b, `!!document.querySelector("#page svg a[href]")`))
	b.keys(tabKey)
	require.True(t, eval[bool](b, `!!document.activeElement.closest("svg")`), "the first box is next")
	b.keys(enter)
	b.arrives("/backups/done/item")

	b.view(1200, 900, false, false)
	b.open("/backups/done")
	b.press("Delete")
	b.arrives("/backups/done/delete")
	b.shows("restore again")
	b.press("Delete done")
	s.AwaitGone(&velerov1.Backup{}, "done")
	b.shows("there is no backup done")
}

// scrolls requires that the region with the focus moves with the arrow keys.
func (b *browser) scrolls() {
	b.t.Helper()
	require.True(b.t, eval[bool](b, "document.activeElement.scrollWidth > document.activeElement.clientWidth"))
	b.keys(arrowRight)
	b.until("document.activeElement.scrollLeft > 0")
}
