// Package manifest is the manifest writer cleat.dev/manifest, the default. It writes the file manifest.json.gz beside a
// backup, in the format of framework/manifest: each item with its labels, annotations, owners and references, and with
// the reason why it is in the backup. config.omitAnnotations are the keys of annotations that are left out.
//
// The package may import framework. Start with writer.go.
package manifest
