// Package cli is the command line of cleat: the server and the commands that ask it for backups
// and restores.
//
// The commands know the custom resources and nothing of the server's inside: they create, watch
// and read objects, so they work with a server of Velero as well. Start reading at root.go, the
// tree of commands; backup.go and restore.go hold theirs, describe_*.go what "describe" prints,
// await.go the waiting for the end with a progress bar, download.go the way to the files of a
// backup, table.go and output.go the forms of output. queue.go shows who runs and who waits, from
// the Backups alone (queue_watch.go while it changes), and queue_simulate.go asks a policy about
// Backups of a file. plugin.go has the commands about plugins, of which those that look at a
// directory (plugin_source.go) run a plugin host of their own. Beside these, only server.go and
// runplugins.go import the server.
package cli
