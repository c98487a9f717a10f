// Package waits tells people what a run waits for, and since when.
//
// A List holds the open waits of one run. Whatever waits adds itself with Begin to the list in its context, and removes
// itself with End; so thousands may wait at once, and nobody passes lists around. The list logs the waits that last,
// and Longest returns them for the status of the run.
//
// The package imports hclog and server/internal/kube/shorten. Start reading at List.
package waits
