// Package waits reports what a run waits for, and since when.
//
// A List holds the open waits of one run. Code that waits adds an entry with Begin to the list in its context, and
// removes it with End; so thousands may wait at once, and no function passes lists on. The list logs the waits that
// last, and Longest returns them for the status of the run.
//
// The package imports hclog and server/internal/kube/shorten. Start reading at List.
package waits
