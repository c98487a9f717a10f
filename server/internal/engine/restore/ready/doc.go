// Package ready waits until items are ready: until plugins report that the items that they need are, or until objects
// in the cluster are.
//
// Waiter asks for all waiting items of a restore: for each item once in an interval and up to its own limit, but each
// plugin, or the API server for one resource, about few items at a time, regardless of the number of waiting items.
//
// The package imports no other package of the project.
package ready
