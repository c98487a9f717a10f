// Package queue runs servers with queues of backups, and shows in which order backups start.
// The fixture is in server/test/site.
package queue
