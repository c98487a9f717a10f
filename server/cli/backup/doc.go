// Package backup holds the commands about backups. Start reading at backup.go. The flags in flags.go describe the
// template of a schedule as well.
package backup
