// Package install brings the custom resource definitions of the server into a cluster, or up to date.
//
// It works through a client of the caller's, so the command line and other programs share it. It imports the
// definitions from framework/api/velero/crds and nothing of the server. Start reading at definitions.go.
package install
