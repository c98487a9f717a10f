// Package cli is the command line of cleat: the server and the commands that ask it for backups
// and restores.
//
// The commands know the custom resources and nothing of the server's inside: they create, watch
// and read objects, so they work with a server of Velero as well. Start reading at root.go, the
// tree of commands; backup.go and restore.go hold theirs, describe_*.go what "describe" prints,
// await.go the waiting for the end with a progress bar, download.go the way to the files of a
// backup, table.go and output.go the forms of output. server.go and runplugins.go are the only ones
// that import the server.
package cli
