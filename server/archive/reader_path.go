package archive

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The fixed parts of paths in an archive (Velero's layout).
const (
	resourcesDir  = "resources"
	namespacesDir = "namespaces"
	clusterDir    = "cluster"
	versionPath   = "metadata/version"
	itemSuffix    = ".json"
)

// cleanPath refuses whatever could point out of a folder, and drops "./" and doubled slashes.
func cleanPath(name string) (string, error) {
	switch {
	case strings.ContainsRune(name, 0):
		return "", errors.New(`path with a NUL, want names joined by "/"`)
	case path.IsAbs(name):
		return "", errors.New("absolute path, want one relative to the archive")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New(`path with "..", want one inside the archive`)
		}
	}
	return path.Clean(name), nil
}

// parsePath takes apart resources/<gr>/cluster/<name>.json and
// resources/<gr>/namespaces/<namespace>/<name>.json. It is not ok for all other paths, among them
// those with a version.
func parsePath(p string) (gr schema.GroupResource, namespace, name string, ok bool) {
	parts := strings.Split(p, "/")
	if len(parts) < 4 || parts[0] != resourcesDir || parts[1] == "" {
		return gr, "", "", false
	}
	switch {
	case parts[2] == clusterDir && len(parts) == 4:
	case parts[2] == namespacesDir && len(parts) == 5 && parts[3] != "":
		namespace = parts[3]
	default:
		return gr, "", "", false
	}
	name, ok = strings.CutSuffix(parts[len(parts)-1], itemSuffix)
	if !ok || name == "" {
		return gr, "", "", false
	}
	return schema.ParseGroupResource(parts[1]), namespace, name, true
}

// quotedPath is a path as it may stand in a message: foreign, so quoted, and not of any length.
func quotedPath(p string) string {
	const most = 200
	if len(p) > most {
		p = p[:most] + "..."
	}
	return strconv.Quote(p)
}
