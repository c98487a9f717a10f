// Package queue runs servers with queues of backups, and shows the order in which backups start. The fixture is in
// server/test/site.
package queue
