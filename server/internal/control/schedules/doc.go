// Package schedules creates a Backup for each Schedule when it is due.
//
// It may import packages run, queue and timetable. Start reading at controller.go; backup.go makes the Backup for a
// time.
package schedules
