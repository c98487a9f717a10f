// Package item reads what the server must know of a Kubernetes object from its raw JSON, without decoding
// the rest of it.
//
// Meta is the metadata of one object, List one page of a list with each object left as raw bytes. Both
// stand on scanner, which walks over JSON and checks its syntax as it goes: what it accepts,
// encoding/json accepts, and the other way round.
//
// It imports the standard library only.
package item
