// Package operation has the state of asynchronous operations: work that an item action of a plugin has started and
// that continues after the call. It does not depend on custom resources; a backup or restore is an Owner.
//
//   - operation.go: an operation and its state.
//   - file.go: operations in the form of Velero's itemoperations.json.gz.
//   - journal.go: the durable record of the starts that were requested from actions. It is written before each request,
//     and consists of records (records.go) in ConfigMaps (pages.go), each write with a proof; journals.go has the
//     journals of all owners.
//   - monitor.go: polls open operations, each at a pace of its own, ends those that take too long, and cancels. The
//     operations of one owner are a group (group.go), which grows while the owner's run starts them. The monitor calls
//     the actions of the plugin host (plugins.go).
package operation
