// Package field reads and changes the fields of objects that come from a cluster or from an archive, in place and
// without a copy. A field that is absent or null reads as empty. A field of another type than in the API is an error
// that names the field: "spec.volumes[2].name is a number, want a string".
//
// It imports framework only. read.go reads fields, drop.go removes them.
package field
