// Package wire is shared by the server sides of Velero's kinds: it converts the parts that several of their messages
// have in common, and decodes and encodes JSON in messages. It imports the protos, framework and apimachinery. Start
// reading at item.go.
package wire
