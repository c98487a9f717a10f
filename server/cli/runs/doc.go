// Package runs holds what the commands about backups and about restores have in common: creating an object and waiting
// for its end, cancelling it, printing its log, describing it, and downloading its files.
//
// It imports server/cli/command and server/cli/status. Start reading at object.go, which makes backups and restores
// alike; create.go, cancel.go, logs.go and describe.go hold the commands, dryrun.go and outcomes.go dry runs.
package runs
