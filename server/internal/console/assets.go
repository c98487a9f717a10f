package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed templates
var frameFiles embed.FS

// assetFiles are the style sheet and the script of the console. In the folder npm are those that "make console-assets"
// has fetched. Without them the console is plainer, and its pages have to be loaded again to be current.
//
//go:embed assets
var assetFiles embed.FS

// fetched are the files of assets/npm.
var fetched = []string{"pico.min.css", "htmx.min.js", "sse.min.js", "idiomorph-ext.min.js"}

// assets serves the files. Their addresses have a hash of their content, so browsers keep them.
type assets struct {
	content  map[string][]byte // by the last part of the path
	paths    map[string]string
	complete bool // the fetched ones are there
}

// newAssets returns the files, with the style sheet of the pages.
func newAssets(styles string) (*assets, error) {
	a := &assets{content: map[string][]byte{}, paths: map[string]string{}, complete: true}
	err := fs.WalkDir(assetFiles, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".css") && !strings.HasSuffix(name, ".js") {
			return err
		}
		content, err := assetFiles.ReadFile(name)
		if err != nil {
			return err
		}
		a.add(path.Base(name), content)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the scripts and style sheets: %w", err)
	}
	a.add("pages.css", []byte(styles))
	for _, name := range fetched {
		a.complete = a.complete && a.paths[name] != ""
	}
	return a, nil
}

func (a *assets) add(name string, content []byte) {
	sum := sha256.Sum256(content)
	hashed := hex.EncodeToString(sum[:8]) + "-" + name
	a.content[hashed], a.paths[name] = content, "/assets/"+hashed
}

// path returns the address of a file, "" for one that was not fetched.
func (a *assets) path(name string) string { return a.paths[name] }

// ServeHTTP implements http.Handler.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, found := a.content[strings.TrimPrefix(r.URL.Path, "/assets/")]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.URL.Path)))
	_, _ = w.Write(content)
}
