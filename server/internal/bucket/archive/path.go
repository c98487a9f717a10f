package archive

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// FormatVersion is the version of the layout: the content of metadata/version, and status.formatVersion. Since 1.1.0,
// an archive has folders for versions; Velero compares the text with 1.1.0. Since 1.2.0, a manifest may be beside it.
const FormatVersion = "1.2.0"

// The fixed parts of paths in an archive (Velero's layout).
const (
	resourcesDir  = "resources"
	namespacesDir = "namespaces"
	clusterDir    = "cluster"
	versionPath   = "metadata/version"
	itemSuffix    = ".json"

	// preferredSuffix marks the folder of the version that the API server preferred.
	preferredSuffix = "-preferredversion"
)

// ItemPath returns the path of an object in an archive. versionDir is empty for the path without a version; otherwise
// it is a version such as "v1", or one that ends in "-preferredversion". namespace is empty for a cluster-scoped
// object.
func ItemPath(gr schema.GroupResource, versionDir, namespace, name string) string {
	var b strings.Builder
	for _, part := range []string{resourcesDir, gr.String(), versionDir} {
		if part != "" {
			b.WriteString(part + "/")
		}
	}
	if namespace == "" {
		b.WriteString(clusterDir + "/")
	} else {
		b.WriteString(namespacesDir + "/" + namespace + "/")
	}
	b.WriteString(name + itemSuffix)
	return b.String()
}

// checkPart returns an error unless part can be one part of a path.
func checkPart(what, part string) error {
	if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
		return fmt.Errorf(`%s %q cannot be part of a path in an archive; want a name without "/"`, what, part)
	}
	return nil
}

// checkItem returns an error unless the names of an object can be parts of a path.
func checkItem(gr schema.GroupResource, version, namespace, name string) error {
	err := errors.Join(checkPart("resource", gr.String()), checkPart("version", version), checkPart("object name", name))
	if namespace != "" {
		err = errors.Join(err, checkPart("namespace", namespace))
	}
	return err
}

// cleanPath removes "./" and doubled slashes from a path. It returns an error if the path could point outside a folder.
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

// parsePath splits resources/<gr>/cluster/<name>.json and resources/<gr>/namespaces/<namespace>/<name>.json into their
// parts. It reports false for all other paths, including those with a version.
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

// parseVersionedPath splits a path like parsePath, with the folder of a version: resources/<gr>/<version>/...
func parseVersionedPath(p string) (gr schema.GroupResource, version, namespace, name string, ok bool) {
	parts := strings.SplitN(p, "/", 4)
	if len(parts) < 4 || parts[2] == "" {
		return gr, "", "", "", false
	}
	gr, namespace, name, ok = parsePath(strings.Join([]string{parts[0], parts[1], parts[3]}, "/"))
	return gr, parts[2], namespace, name, ok
}

// parseObject splits the path of an object, with or without a version, into its parts. It reports false for all other
// paths, and returns an error unless the resource is spelt as the API server spells it: otherwise several paths would
// name one object, and filters would match one of them.
func parseObject(p string) (o Object, ok bool, err error) {
	if o.GroupResource, o.Namespace, o.Name, ok = parsePath(p); !ok {
		o.GroupResource, o.Version, o.Namespace, o.Name, ok = parseVersionedPath(p)
	}
	if !ok {
		return Object{}, false, nil
	}
	segment := strings.SplitN(p, "/", 3)[1]
	want := schema.ParseGroupResource(strings.ToLower(segment))
	if want.Resource == "" || want.String() != segment {
		return Object{}, false, fmt.Errorf("resource %q, want it spelt like %q", segment, cmp.Or(want.String(), "pods"))
	}
	return o, true, checkPart("object name", o.Name)
}

// quotedPath returns a path for use in a message: quoted, and cut if it is long.
func quotedPath(p string) string {
	return strconv.Quote(shorten.Text(p, 200))
}
