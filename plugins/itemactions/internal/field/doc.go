// Package field reads and changes the fields of objects that come from a cluster or from an archive, in
// place and without a copy. A field that is absent or null reads as empty; one of another type than the
// API has there is an error that names it, "spec.volumes[2].name is a number, want a string".
//
// It imports framework only. read.go reads, drop.go takes keys away.
package field
