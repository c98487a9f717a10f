// Package claims holds the built-in actions on PersistentVolumeClaims. They handle the objects, not the data of the
// volumes.
//
// It imports framework only. backup.go and restore.go do not depend on each other.
package claims
