// Package object represents one object of a backup as JSON, and the changes that a restore makes without a cluster.
//
// Object takes the two upper levels of an object apart and leaves everything below as the bytes of the archive
// (object.go over fields.go). Ownership plans how the field ownership of the original object is restored
// (ownership.go).
//
// RemoveOrders removes what servers and agents act upon (orders.go).
//
// The package imports the server's item and orders only.
package object
