// Package services holds the built-in action on Services: fields that the cluster assigned are assigned again, fields
// that a user chose are kept.
//
// It imports framework only. restore.go decides what is removed; applied.go and owned.go find out what the user chose.
package services
