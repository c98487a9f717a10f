// Package holds sets and ends legal holds on the files of backups, as an annotation of the Backup asks.
//
// The package may import server/internal/control/run and what that may import. Start reading at controller.go.
package holds
