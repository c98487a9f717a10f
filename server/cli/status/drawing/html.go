package drawing

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"io"
)

//go:embed page.js
var script string

//go:embed page.css
var pageStyle string

// HTML writes the graph as a page that needs no other file: the picture, a field to find items, and a click, or the key
// Enter, shows what an item is connected with. The page may load nothing and run no script but its own.
func (g *Graph) HTML(out io.Writer) error {
	w := &writer{w: out}
	hash := sha256.Sum256([]byte(script))
	w.line("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">")
	w.line(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-%s'">`,
		base64.StdEncoding.EncodeToString(hash[:]))
	w.line("<title>%s</title>", xmlText(safe(g.Title)))
	w.line(`<meta name="viewport" content="width=device-width">`)
	w.line("<style>\n%s%s</style>", pageStyle, Style)
	w.line(`<form><input type="search" placeholder="find items" aria-label="find items"> <output></output></form>`)
	w.line("<main>")
	g.svg(w, picture{link: func(*Node) string { return "" }})
	w.line("</main>\n<script>%s</script>\n</html>", script)
	return w.failed
}
