// Package backup is the engine of a backup: it reads the objects that a Backup selects from the API server, calls the
// plugins' actions for them, and streams them into an archive.
//
// Start with Run in engine.go. The other files are in the order of the data:
//
//	options.go     the arguments of a run
//	prepare.go     resolves the spec and the actions before the run begins
//	selection.go   the namespaces, resources and labels that the spec selects
//	preflight.go   warnings about requests of the spec that the server does not support
//	plan.go        which lists to read, in which order
//	pages/         the pages of all lists, read ahead
//	ordered.go     the objects of spec.orderedResources, which come first
//	workers.go     blocks of objects, and the goroutines that back them up
//	lanes.go       which workers back up a block: in order, or several at once
//	blocks.go      the objects that are in one block because of item block actions
//	items.go       backs up one block
//	hooks.go       the hooks of the pods of a block, before and after its objects
//	itemrun.go     the steps of one object: select, claim, act, write, settle
//	actions.go     calls the plugins' actions for it
//	volumes.go     the data of persistent volumes
//	podvolumes.go  the volumes of pods that are backed up from the file system
//	manifest.go    writes the object, and adds it to the manifest
//	seen.go        which objects are already in the backup
//	closing.go     namespaces and custom resource definitions, which come last
//	state.go       the state that the steps of a run share
//	accept.go      the items of an accepted dry run, and no others
//	dryrun.go      the differences in a dry run
//	refresh.go     reads objects again after the operations of a backup have ended
//	record.go      counts, resource list, errors and warnings
//
// An object stays the raw JSON that the API server sent. It is copied and decoded only if an action applies to it.
// Memory does not grow with the number of objects, except for one hash and one line of the resource list each.
//
// The engine gets everything as arguments and keeps no state between runs, so that it can run in a process of its own.
// It must not import controllers or the store.
package backup
