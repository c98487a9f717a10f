// Package restore restores the objects of a backup archive in a cluster.
//
// Start with Run in engine.go: custom resource definitions first, then all other resources by priority, the
// items of one resource by a pool of workers. The other files are in the order of the data:
//
//	plan/          which objects are restored, in which order, into which namespaces
//	collect.go     the items of one resource
//	pool.go        how many items are restored at once, and how items that wait give up their place
//	tracker.go     that each item is restored once, and the list of what was done
//	server.go      what is left alone because the server that restores lives on it
//	namespaces.go  that the namespace of an item exists
//	itemrun.go     one item, and its warnings and errors
//	item.go        its steps
//	object/        the item as JSON, and its field ownership
//	volumes.go     persistent volumes, their claims, and errors about data that cannot be restored
//	volume/        what the files beside the archive say about the data of volumes
//	actions.go     calling the plugins' restore item actions
//	modify.go      applying the user's resource modifiers
//	ready/         waiting for additional items
//	write.go       creating the object and restoring its field ownership and status
//	existing.go    objects that the cluster has already
//	drift/         how such an object differs from the backup, and what an update leaves alone
//	crds.go        waiting for custom resource definitions
//	dryrun.go      what a dry run does differently
//	resume.go      what an attempt that was interrupted has created
//	state.go       counts, messages and facts that items share
//	result.go      the outcome
//
// Actions and node agents restore the data of volumes, and this package does not.
//
// The package takes everything as arguments and keeps no state between runs, so that restores may run at the
// same time or in another process. It imports the server's archive, discovery, item, itemaction, kubeapi,
// modifiers and results, the hub of restore item actions, and client-go.
package restore
