// Package item reads the fields that the server needs from the raw JSON of Kubernetes objects, without decoding the
// rest.
//
// Meta is the metadata of one object (meta.go); List is one page of a list with each object left as raw bytes
// (list.go). Both verify the syntax of the whole text: they accept what encoding/json accepts, and nothing else
// (decode.go). Objects that come from elsewhere than the API server are read by foreign.go: in one way only.
//
// The package may import package foreign, the decoder of Kubernetes, and jsontext, which will be encoding/json/jsontext
// of the standard library. Start at meta.go.
package item
