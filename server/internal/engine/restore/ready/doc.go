// Package ready waits until plugins report that what they need is ready.
//
// Waiter asks on behalf of all items of a restore that wait: each item as often as the interval says and for as long as
// its own limit, but each plugin about few items at a time, however many wait.
//
// The package imports nothing of ours.
package ready
