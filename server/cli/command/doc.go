// Package command holds what the commands share: the application with its streams, the access to the cluster, flags,
// forms of output, the listing of objects, progress, and questions to the server.
//
// It is independent of the nouns of the command line: the packages for backups, restores, schedules, the queue and
// plugins import it, and server/cli puts them together. Start reading at app.go and cluster.go.
package command
