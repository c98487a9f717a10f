// Package schedules creates a Backup for each Schedule when it is due.
//
// It may import packages run and queue. Start reading at controller.go; timetable.go reads cron expressions, backup.go
// makes the Backup for a time.
package schedules
