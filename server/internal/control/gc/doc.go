// Package gc deletes expired backups, as Velero does: it creates a DeleteBackupRequest for each, which package
// deletions carries out.
//
// It may import package run. Start reading at controller.go.
package gc
