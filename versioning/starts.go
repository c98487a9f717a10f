package versioning

// Starts declares whether a version of an item action can start operations that outlast its call.
type Starts int

const (
	// NoOperations is a version whose calls end with their work.
	NoOperations Starts = iota
	// Unkeyed is a version that starts operations and whose calls must not be repeated: a second call starts a second
	// operation.
	Unkeyed
	// Keyed is a version whose calls carry a key: a second call with the same key returns the operation of the first.
	Keyed
)
