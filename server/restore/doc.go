// Package restore brings the objects of a backup archive back into a cluster.
//
// Start with Run in engine.go, which tells the story in order: custom resource definitions first, then
// all other resources by priority, the items of one resource by a pool of workers. What happens to one
// item is in item.go; selection.go says which items there are, actions.go runs the plugins' restore
// item actions, modify.go applies the user's resource modifiers, write.go creates objects and puts their
// field ownership back, existing.go deals with what is in the cluster already, and api.go is how the API
// server is talked to, and talked to again when it is away for a while.
//
// The data of volumes and the hooks of pods are not restored by this package; what a restore asks for
// of these is named in its warnings.
//
// The package takes all it needs as arguments and keeps no state, so that restores may run at once or
// in another process. It imports the server's discovery, filter, item, archive, modifiers and results, the
// hub of restore item actions, and client-go.
package restore
