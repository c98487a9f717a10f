// Package backup holds the commands about backups. Start reading at backup.go. The flags in flags.go describe the
// template of a schedule as well, and the console has them as fields of a form.
package backup
