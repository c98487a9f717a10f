// Package rehearsals rehearses backups: each is restored into namespaces of its own, shut in, and what came up is
// compared with the backup, checked, and taken away again.
//
// A rehearsal is a Restore with an annotation. Controller takes it through its phases, each of which is written before
// its work begins and can be repeated, so that the next server goes on after a kill -9:
//
//	requested  request.go     what a user or a schedule creates; waits for its turn
//	preparing  namespaces.go  the namespaces, with what shuts them in, before anything is restored
//	restoring  -              the controller of restores is at work, with the rules of spec/enclosure
//	waiting    ready.go       until the workloads are ready, or the time is over
//	checking   checks.go      the commands of the owners of the pods; report.go stores the report
//	cleaning   clean.go       what was made is deleted
//	done       -              the Restore stays for a while
//
// schedule.go begins rehearsals of schedules, and sweep.go deletes what rehearsals have left whose Restore is gone.
// Only namespaces that carry a proof of the server are deleted (proof.go).
// Start at controller.go.
package rehearsals
