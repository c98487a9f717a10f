// Command chaos runs two servers under a steady load of backups, restores and deletions, while it kills and stops the
// servers and their plugins and takes the API server and S3 away, in a sequence that a seed decides. "make chaos" runs
// it.
//
// A watch that no fault reaches checks the rules of the queue at each change of a Backup (rules.go). At the end every
// backup, restore and deletion must have ended, and the bucket must hold what the custom resources say (check.go).
// Start at main.go; the faults are in faults.go and the load is in load.go.
package main
