// Package ready waits until plugins report that the items that they need are ready.
//
// Waiter asks for all waiting items of a restore: for each item once in an interval and up to its own limit, but each
// plugin about few items at a time, regardless of the number of waiting items.
//
// The package imports no other package of the project.
package ready
