// Package itemaction is what the engines of backup and restore share about the item actions of plugins:
// which actions take part in a run, which of them apply to an item and in which order they are called
// (set.go), what an item that an action returned must be (reply.go), and the asynchronous operations that
// actions start (operation.go).
//
// Deadlines, retries and the prefix of errors belong to each call of a plugin and are the plugin host's.
//
// The package imports framework and the server's discovery, filter and item. It knows no kind of action:
// Set works for every one that says what it applies to.
package itemaction
