// Package ledger has the admission ledger: one ConfigMap in which the node agents of a cluster note the loads that they
// have admitted. It makes the number of loads that are prepared at once exact, although each agent sees the custom
// resources through a cache of its own that may be old.
//
//   - A load is noted before it is Accepted, by a compare-and-swap of the whole ledger. So the agents decide one after
//     the other, and each of them sees all former admissions.
//   - A note stands for one write only: it names the resource version of the New load, on which the write of Accepted
//     is conditional. If the load is New in another version, the note is void.
//   - A note is dropped when its load is seen InProgress, ended or deleted. A load never goes back, so an old cache
//     only keeps notes for too long: agents count too many, never too few.
//
// The ledger is never written only to drop notes: void notes are ignored until the next write drops them.
//
// The ledger is signed with the key of the installation: one that no agent has written is none, and is replaced by the
// next write.
//
// The ledger also lists the agents, so that all of them agree whose turn a load is that any of them can take.
//
// The package is pure: it reads and makes the ConfigMap, and sends no requests. Start reading at ledger.go.
package ledger
