// Package install has the objects of an installation: Objects returns all of them for some Options, in the order in
// which they are applied. The command line applies or prints them and removes them again.
//
// It works through the caller's client and imports nothing of the running server. Start reading at objects.go; rbac.go
// has the rights of a server, apply.go brings objects into a cluster, and uninstall.go removes them.
package install
