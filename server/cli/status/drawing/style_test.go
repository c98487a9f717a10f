package drawing

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts are readable on the boxes of all resources, in light and in dark, as WCAG 2 wants it.
func TestColoursHaveContrast(t *testing.T) {
	t.Parallel()
	light, dark, found := strings.Cut(Style, "@media (prefers-color-scheme: dark) {")
	require.True(t, found)
	boxes := regexp.MustCompile(`\.colour-(\d+) rect \{ fill: (#\w+); stroke: (#\w+) \} ` +
		`\.graph \.colour-(\d+) \.resource \{ fill: (#\w+) \}`)
	for name, mode := range map[string]struct{ css, text string }{"light": {light, "#222222"}, "dark": {dark, "#eeeeee"}} {
		all := boxes.FindAllStringSubmatch(mode.css, -1)
		require.Len(t, all, len(fills), name)
		for i, box := range all {
			require.Equal(t, []string{strconv.Itoa(i), strconv.Itoa(i)}, []string{box[1], box[4]})
			if name == "light" {
				require.Equal(t, fills[i], box[2], "what Graphviz gets")
			}
			require.GreaterOrEqual(t, contrast(t, box[2], box[5]), 4.5, "resource on box %d in %s", i, name)
			require.GreaterOrEqual(t, contrast(t, box[2], mode.text), 4.5, "name on box %d in %s", i, name)
			require.GreaterOrEqual(t, contrast(t, box[2], box[3]), 3.0, "frame of box %d in %s", i, name)
		}
	}
}

// contrast returns the contrast of two colours.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) (sum float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			require.NoError(t, err)
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestFragmentIsForAPageWithAStrictPolicy(t *testing.T) {
	t.Parallel()
	g := graphOf(t, shop()...)
	var out bytes.Buffer
	require.NoError(t, g.Fragment(&out, func(n *Node) string {
		if n.Missing {
			return ""
		}
		return fmt.Sprintf("/item?name=%s&resource=%s", n.Name, n.Resource)
	}))
	wellFormed(t, out.Bytes())
	for _, forbidden := range []string{"<style", "style=", "<script", "<?xml"} {
		require.NotContains(t, out.String(), forbidden)
	}
	require.Contains(t, out.String(), `<a href="/item?name=web&amp;resource=deployments.apps">`)
	missing := 0
	for i := range g.Nodes {
		if g.Nodes[i].Missing {
			missing++
		}
	}
	require.Equal(t, len(g.Nodes)-missing, strings.Count(out.String(), "<a href="))
	require.Equal(t, strings.Count(out.String(), "<title>"), 1+len(g.Nodes)+len(g.Edges), "each box and line has a title")
}
