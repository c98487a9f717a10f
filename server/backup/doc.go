// Package backup is the engine of a backup: it reads the objects that a Backup selects from the API
// server, lets plugins' actions look at them, and streams them into an archive.
//
// Start with Run in engine.go, which tells the story; the files behind it follow the data:
//
//	selection.go  what the spec selects: namespaces, resources, labels
//	preflight.go  what the spec asks for and does not get
//	plan.go       which lists to read, in which order
//	client.go     the API server as raw JSON, with retries
//	pages.go      the pages of all lists, read ahead within bounds
//	items.go      what happens to one object
//	actions.go    the plugins' part of that
//	closing.go    namespaces and custom resource definitions, which come last
//	record.go     counts, resource list, errors and warnings
//
// An object stays the raw JSON that the API server sent. It is copied, and decoded, only where an action
// applies to it. Memory does not grow with the number of objects, but for one hash and one line of
// the resource list each.
//
// The engine gets everything as arguments and keeps nothing between runs, so that it can run in a
// process of its own. It must not import controllers or the store.
package backup
