// Package wire calls plugins over gRPC: actions of all kinds and versions in one way, and one method of every kind to
// see whether it is served.
//
// It imports the protos. Start reading at action.go; kinds.go knows what else distinguishes the kinds.
package wire
