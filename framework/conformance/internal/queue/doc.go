// Package queue holds the snapshots of queues that QueueAdmissions are asked about, and reads those of callers.
//
// It imports the proto of the kind. Start reading at snapshots.go.
package queue
