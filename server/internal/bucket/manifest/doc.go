// Package manifest makes the manifests of backups from their objects.
//
//	Item         item.go      one object, as manifest writers get it
//	FromArchive  archive.go   the manifest of a backup that has none
//	Items        again.go     the items of an archive that has changed, with the data of its manifest
//
// The document itself is framework/manifest. The package may import server/internal/kube/item,
// server/internal/bucket/reference, server/internal/bucket/archive and hubs of plugins. Start at item.go.
package manifest
