// Package documents holds the tests of the repository's own documents. It has no code of its own: start reading at
// protocol_test.go.
package documents
