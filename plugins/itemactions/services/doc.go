// Package services holds the built-in action on Services: fields that the cluster assigned are assigned again, fields
// that a user chose are kept.
//
// It imports framework only. restore.go removes fields; applied.go and owned.go find the fields that the user chose.
package services
