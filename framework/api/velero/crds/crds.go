// Package crds has the CustomResourceDefinitions of group velero.io, which are generated from the
// types in packages v1 and v2alpha1. The installer and tests use them.
//
// It is a separate package so that plugins, which import the types, do not contain the definitions.
// It may only import the standard library. Start reading at All.
package crds

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed velero.io_*.yaml
var files embed.FS

// All returns the definitions as YAML documents, ordered by the plural names of their resources. The
// caller may modify them.
func All() ([][]byte, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list the embedded definitions: %w", err)
	}
	documents := make([][]byte, 0, len(names))
	for _, name := range names {
		document, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the embedded definition %s: %w", name, err)
		}
		documents = append(documents, document)
	}
	return documents, nil
}
