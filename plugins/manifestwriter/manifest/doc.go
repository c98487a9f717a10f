// Package manifest is the manifest writer cleat.dev/manifest, the default. It writes the file manifest.json.gz beside a
// backup, the format of which is that of framework/manifest: each item with its labels, annotations and owners, with
// what it refers to, and with how it came into the backup. config.omitAnnotations are the keys of annotations that are
// left out.
//
// The package may import framework. Start with writer.go.
package manifest
