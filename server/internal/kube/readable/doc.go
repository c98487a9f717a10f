// Package readable lists custom resources even if some cannot be decoded, such as a Backup whose ttl is longer than a
// duration can be: the schema of a definition accepts more than the Go type does, and clients fail for the whole list.
//
// Start with List. It costs nothing unless a list has failed. The package imports controller-runtime's client and no
// other package of the server.
package readable
