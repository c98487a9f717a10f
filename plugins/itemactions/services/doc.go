// Package services holds the built-in action on Services: what a cluster assigned is assigned anew, what a user
// asked for is asked for again.
//
// It imports framework only. restore.go decides what goes, applied.go and owned.go find out what the user had
// asked for.
package services
