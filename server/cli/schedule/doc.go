// Package schedule holds the commands about schedules. Start reading at schedule.go. The flags for the template of a
// schedule are in server/cli/backup.
package schedule
