// Package crds holds the CustomResourceDefinitions of group velero.io, generated from the types
// beside it, for the installer and for tests.
//
// It is a package of its own so that a plugin, which imports the types, does not carry the
// definitions. It may import the standard library only. Start reading at All.
package crds

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed velero.io_*.yaml
var files embed.FS

// All returns the definitions, one YAML document each, ordered by the plural name of the resource.
// The slices belong to the caller.
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
