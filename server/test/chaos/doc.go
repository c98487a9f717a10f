// Command chaos runs two servers under a steady load of backups, restores and deletions. It kills and stops the
// servers and their plugins and makes the API server and S3 unavailable, in a sequence that a seed determines. "make
// chaos" runs it.
//
// A watch that bypasses all faults checks the rules of the queue at each change of a Backup (rules.go). At the end
// every backup, restore and deletion must have ended, and the bucket must match the custom resources (check.go). Start
// at main.go; the faults are in faults.go and the load is in load.go.
package main
