// Package cli is the command line of cleat: it puts the commands together and starts the server.
//
// The commands about backups, restores, schedules, the queue, operations and plugins are in packages of their own below
// this one, on top of server/cli/command (application, cluster access, flags, output), server/cli/runs (what backups
// and restores share) and server/cli/plugindir (plugin directories). What they print is composed by server/cli/status.
// The commands create, watch and read custom resources, so they work with a server of Velero as well.
//
// Start reading at root.go. Only server.go uses server/app, which assembles the server.
package cli
