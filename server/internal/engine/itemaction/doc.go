// Package itemaction has the common parts of the engines of backup, restore and deletion for item actions of plugins:
// which actions take part in a run, which of them apply to an item and in which order they are called (set.go), the
// validation of the items that actions return (reply.go), and the operations that actions start (operations.go).
//
// Deadlines, retries and the prefix of errors belong to each call of a plugin, in the plugin host.
//
// The package imports framework, versioning and the server's discovery, filter, item and operation. It does not depend
// on the kind of an action: Set works for all actions with a selector.
package itemaction
