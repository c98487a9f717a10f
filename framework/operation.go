package framework

import "time"

// OperationProgress is how far an asynchronous operation is that an action has started.
type OperationProgress struct {
	// Completed is set once the operation has ended, well or badly, and stays set.
	Completed bool
	// Err is why it ended badly, which makes the backup or restore PartiallyFailed; empty when it did not. It counts only
	// together with Completed.
	Err string
	// NCompleted of NTotal are done; NTotal is 0 as long as it is not known. Neither is negative. The server shows them as
	// reported.
	NCompleted int64
	NTotal     int64
	// Units is what NCompleted and NTotal count, for people: "bytes".
	Units string
	// Description is what happens right now, for people.
	Description string
	// LastLines are the last lines that the work has written, wherever it is done, separated by line breaks: what people
	// need if it fails. The last 20 of them, or 2048 bytes, are kept. Empty means that there is nothing new. Only the
	// asynchronous kinds of this project send them.
	LastLines string
	// Started and Updated are when the operation began and when the rest was last true; zero when not known.
	Started time.Time
	Updated time.Time
}
