// Package claims holds the built-in actions on PersistentVolumeClaims. They handle the objects, not the data of the
// volumes.
//
// It imports framework and, for pods, the API of the core group. backup.go, block.go and restore.go do not depend on
// each other.
package claims
