// Package itemaction is what the engines of backup, restore and deletion share about the item actions of plugins: which
// actions take part in a run, which of them apply to an item and in which order they are called (set.go), what an item
// that an action returned must be (reply.go), and the operations that actions start (operations.go).
//
// Deadlines, retries and the prefix of errors belong to each call of a plugin and are the plugin host's.
//
// The package imports framework, versioning and the server's discovery, filter, item and operation. It knows no kind of
// action: Set works for every one that says what it applies to.
package itemaction
