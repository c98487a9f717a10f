// Package foreign decodes untrusted JSON, such as the files of a bucket: within limits, and without constructs that
// decoders interpret differently.
//
// A document is valid if it is within its Limits, no object has a member twice, no element of a list is null, each
// number fits into 64 bits, and nothing follows it. Names of members are compared exactly, as in the API server. A
// stream keeps one element in memory. All other errors of a document are ErrInvalid and say where it is, as a JSON
// pointer; errors of the reader stay what they are.
//
// The package may import jsontext and the decoder of Kubernetes. Start at decode.go.
package foreign
