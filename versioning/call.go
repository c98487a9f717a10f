package versioning

import "time"

// Class is the kind of deadline that bounds a call.
type Class int

const (
	// Execute calls work on an item or a stream. Plugins block in them for as long as a snapshot takes. An undeclared
	// method is of this class.
	Execute Class = iota
	// Query calls do no work: they return a selector or the progress of an operation, or set something up.
	Query
	// Decision calls ask a policy. They are as fast as Query calls.
	Decision
	// Transfer calls are the unary calls of stores and snapshotters; listing a large bucket takes minutes.
	Transfer
)

// Call declares the properties of a method. The zero value applies to a method that is not declared: it gets the
// longest deadline and is never repeated.
type Call struct {
	Class Class
	// Repeatable calls may be made again when the process dies during them.
	Repeatable bool
	// Constant calls have the same reply for the life of the process, so they are made once.
	Constant bool
	// Alone is set for a call that a process serves only once at a time.
	Alone bool
	// Init is set for a call that configures the process. Only the host makes it, after each start, before other calls.
	Init bool
	// GivesAway is set for a stream whose messages the caller makes anew and never uses after it has sent them, so that a
	// plugin in the same process gets them without a copy. Maps in them may be shared: such a plugin does not change them.
	GivesAway bool
	// Silence, unless 0, is how long the plugin may take for an answer or for the next message of a stream, if that is
	// shorter than for others of the class.
	Silence time.Duration
}

// Works reports whether a reply to the call proves that the plugin works.
func (c Call) Works() bool { return c.Class != Query }

// Calls declares the methods of a service, by full name: "/generated.BackupItemAction/Execute".
type Calls map[string]Call
