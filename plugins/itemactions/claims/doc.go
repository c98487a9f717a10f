// Package claims holds the built-in actions on PersistentVolumeClaims. They deal with the objects; what a
// volume holds is not their business.
//
// It imports framework only. backup.go and restore.go do not depend on each other.
package claims
