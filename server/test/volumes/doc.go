// Package volumes takes snapshots of volumes, moves their data, and deletes both with the backups.
// The fixture is in server/test/site.
package volumes
