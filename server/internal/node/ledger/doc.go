// Package ledger has the admission ledger: one ConfigMap in which the node agents of a cluster note the loads that they
// have admitted. The ledger makes the number of loads in preparation exact, although each agent reads the custom
// resources from a cache of its own that may be old.
//
//   - A load is noted before it is Accepted, by a compare-and-swap of the whole ledger. The agents decide one after
//     the other, and each decision takes all earlier admissions into account.
//   - A note permits one write only: it names the resource version of the New load, on which the write of Accepted
//     is conditional. If the load is New in another version, the note is void.
//   - A note is dropped when its load is InProgress, ended or deleted in the cache, in a later version than the noted
//     one. So an old cache only makes notes last too long: agents count too many loads, never too few. A load that is
//     New again, because its volume has to be exposed again, gets a note of its new version.
//
// The ledger is never written only to drop notes: void notes are ignored until the next write drops them.
//
// The ledger is signed with the key of the installation. A ledger that no agent has signed counts as missing, and is
// replaced by the next write.
//
// The ledger also lists the agents, so that they all agree whose turn it is to take a load that any of them can take.
//
// The package is pure: it reads and makes the ConfigMap, and sends no requests. Start reading at ledger.go.
package ledger
