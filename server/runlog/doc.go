// Package runlog is the log of one operation, a backup or a restore: what the engine, the plugins
// and the controllers say about it goes to the server's log and, gzipped, to the log object that
// is stored beside the operation's other files.
//
// It imports hclog only. Start reading at Log; format.go holds the two line formats, which are
// those of Velero's log objects.
package runlog
