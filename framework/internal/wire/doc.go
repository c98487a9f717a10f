// Package wire is what the server sides of Velero's kinds share: the shapes that several of their messages
// have in common, and JSON in and out of them. It imports the protos,
// framework and apimachinery. Start reading at item.go.
package wire
