// Package installation has the commands that install the server into a cluster and remove it.
//
// It makes the options of server/internal/setup/install from flags, with the names of Velero's client where it has the
// flag. Start reading at install.go.
package installation
