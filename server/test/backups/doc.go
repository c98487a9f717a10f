// Package backups backs up with a server, and shows the behavior of backups, their hooks, locations and expiry. The
// fixture is in server/test/site.
package backups
