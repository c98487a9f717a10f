// Package walk is what the built-in admission policies share: a walk along the queue that admits whoever has room and
// overlaps nobody ahead of it. A policy chooses the order of the walk and what counts as an overlap.
//
// It imports framework only. Start reading at walk.go; held.go is what the walk remembers of those ahead.
package walk
