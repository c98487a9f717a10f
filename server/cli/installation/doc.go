// Package installation has the commands that install the server into a cluster and remove it.
//
// It makes the options of server/internal/setup/install from flags, which are those of Velero's client where Velero has
// them. Start reading at install.go.
package installation
