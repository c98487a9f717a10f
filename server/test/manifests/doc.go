// Package manifests reads the manifests that a server writes for backups and dry runs.
// The fixture is in server/test/site.
package manifests
