package archive

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FormatVersion is the version of the layout: the content of metadata/version, and status.formatVersion.
const FormatVersion = "1.1.0"

// preferredSuffix marks the folder of the version that the API server preferred.
const preferredSuffix = "-preferredversion"

// ItemPath is the path of an object in an archive. versionDir is "" for the path without version, else
// a version such as "v1", or one that ends in "-preferredversion". namespace is "" for a
// cluster-scoped object.
func ItemPath(gr schema.GroupResource, versionDir, namespace, name string) string {
	return string(appendItemPath(nil, gr, versionDir, namespace, name))
}

func appendItemPath(b []byte, gr schema.GroupResource, versionDir, namespace, name string) []byte {
	b = append(append(b, resourcesDir+"/"...), gr.Resource...)
	if gr.Group != "" {
		b = append(append(b, '.'), gr.Group...)
	}
	b = append(b, '/')
	if versionDir != "" {
		b = append(append(b, versionDir...), '/')
	}
	if namespace == "" {
		b = append(b, clusterDir+"/"...)
	} else {
		b = append(append(append(b, namespacesDir+"/"...), namespace...), '/')
	}
	return append(append(b, name...), itemSuffix...)
}

// checkPart refuses what would not be one part of a path.
func checkPart(what, part string) error {
	if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
		return fmt.Errorf(`%s %q cannot be part of a path in an archive; want a name without "/"`, what, part)
	}
	return nil
}
