package v1

import "time"

// DecideOutput is the decision of a policy. Every queued backup is either in Admit, or waits and has a Wait.
type DecideOutput struct {
	// Admit are the names of queued backups that may start now, each once, in the order in which they are made
	// ready; at most DecideInput.Free.
	Admit []string
	// Order are the names of all other queued backups, each once, in the order that the queue is to have. nil keeps the
	// present order.
	Order []string
	// Waits has for each of the others why it waits.
	Waits []Wait
	// RecheckAfter is after what time the server calls again even if nothing changes, for a policy that depends on the
	// time; zero for one that does not, otherwise at least a second.
	RecheckAfter time.Duration
}

// Wait is why one queued backup waits. The user reads it.
type Wait struct {
	// Name of the backup.
	Name string
	// Reason is one word for programs, UpperCamelCase, at most 64 letters and digits: "NamespaceOverlap". It is a
	// label of metrics, so there should be few.
	Reason string
	// Message is the reason for people, one line, at most 1024 bytes.
	Message string
	// Blockers are the names of backups in the input that it waits for. Name the nearest only: each change of Reason or
	// Blockers is a write to the Backup, and "cleat queue explain" finds the others by asking again without that one.
	Blockers []string
	// Namespaces are those that it has in common with the blockers.
	Namespaces []string
}
