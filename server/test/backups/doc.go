// Package backups backs up with a server, and shows what backups, their hooks, locations and expiry do.
// The fixture is in server/test/site.
package backups
