// Package directory finds the binaries in the plugin directory, watches it for changes, and decides which of them may
// run.
//
//	Directory  directory.go, find.go, watch.go   what is there now, and when to look again
//	Trust      trust.go, mount_linux.go          which binaries may run: those that only root and the server can change, and of these what the lock names
//	lockFile   lockfile.go                       the file that the lock comes from, and how it changes
//
// It starts no processes and knows nothing of kinds. It may import process, for the identity of a file, owners and
// pluginlock. Start reading at directory.go.
package directory
