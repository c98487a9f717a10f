// Package operation is what the server knows of asynchronous operations: work that an item action of a plugin has
// started and that goes on after the call. It knows no custom resources; a backup or restore is an Owner.
//
//   - operation.go: an operation and its state.
//   - file.go: operations as Velero's itemoperations.json.gz holds them.
//   - journal.go: the durable record of what actions were asked to start, which is written before they are asked. It
//     consists of records (records.go) in ConfigMaps (pages.go), each write with a proof; those of all owners are in
//     journals.go.
//   - monitor.go: polls open operations, each at a pace of its own, ends those that take too long, and cancels. The
//     operations of one owner are a group (group.go), which grows while the owner's run starts them. The actions that
//     are asked are those of the plugin host (plugins.go).
package operation
