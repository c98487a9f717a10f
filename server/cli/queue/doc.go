// Package queue holds the commands about the queue of backups: which run, which wait and why, from the Backups alone
// (watch.go while they change, screen.go on a terminal), and simulate.go, which asks a policy about the Backups of a
// file.
//
// Start reading at queue.go.
package queue
