// Package actiontest runs the tables of the built-in actions' tests. An item is written as JSON; fields that no
// action knows are put into it and must come out again, and any field may have any type without a panic.
//
// It imports framework only. Backup and Restore are one row of a table each, shapes.go is the wrong types.
package actiontest
