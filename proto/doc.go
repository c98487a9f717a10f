// Package proto is the root of the protocol definitions between the host and its plugins: one directory per kind and
// version, the .proto beside the Go generated from it. The comments in the .proto files are the contract.
//
//   - velero/ holds the kinds that Velero defines. Names and numbers are fixed by its wire.
//   - cleat/ holds the kinds that cleat defines.
//
// `make generate` runs buf in this folder. Start reading at velero/backupitemaction/v1.
//
// The messages below velero/ keep Velero's full names, so a Go program that links them cannot link Velero's
// own generated code: protobuf's registry refuses the second registration of a name.
package proto
