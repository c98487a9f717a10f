// Package manifest is the command "manifest": it shows which items a backup holds, how they depend on each other, how
// they came into the backup, and how backups differ. It reads the manifest, never the archive, unless a backup has
// none.
//
// Start reading at manifest.go and source.go.
package manifest
