// Package actiontest runs the table tests of the built-in actions. Items are written as JSON. The package adds unknown
// fields, which must be preserved, and gives each field wrong types, which must not cause a panic.
//
// It imports framework only. Backup and Restore are rows of tables; shapes.go has the wrong types.
package actiontest
