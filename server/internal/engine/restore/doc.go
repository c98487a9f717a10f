// Package restore restores the objects of a backup archive in a cluster.
//
// Start with Run in engine.go: it plans in which order all items are restored, by priorities and by what they need, and
// restores them by a pool of workers. The other files are in the order of the data:
//
//	plan/          which objects are restored, in which order, into which namespaces
//	definitions.go what the custom resource definitions of the backup define
//	collect.go     the items of one resource
//	ordered.go     begins each item when what it needs is ready, by schedule.go
//	pool.go        how many items are restored at once, and how waiting items free their slots
//	tracker.go     restores each item once
//	settled.go     what became of the items, in a byte for each
//	list.go        lists the results
//	server.go      objects that are not changed because the server that restores depends on them
//	namespaces.go  makes sure that the namespace of an item exists
//	itemrun.go     one item, and its warnings and errors
//	item.go        its steps
//	object/        the item as JSON, and its field ownership
//	volumes.go     persistent volumes, their claims, and errors about data that cannot be restored
//	volume/        the data of volumes, as described by the files beside the archive
//	actions.go     calls the plugins' restore item actions
//	modify.go      applies the user's resource modifiers
//	ready/         asks again until additional items, or objects, are ready
//	references.go  what still refers to namespaces that are mapped
//	write.go       creates the object and restores its field ownership and status
//	status.go      the status, and objects that are created with it
//	owners.go      the owners of the object
//	existing.go    objects that already exist in the cluster
//	drift/         the differences between such an object and the backup, and the fields that an update keeps
//	readiness.go   waits for what has been created, before those that need it: claims.go, services.go
//	enclose.go     what is not written, or changed, so that a restore acts on nothing outside of its namespaces
//	refused.go     what the API server has refused is asked for again
//	dryrun.go      the differences in a dry run
//	vanished.go    what others have removed since it was written
//	resume.go      objects that an interrupted attempt has created
//	account.go     what becomes of each item, and what it waits for
//	state.go       counts, messages and facts that items share
//	result.go      the outcome
//
// Actions and node agents restore the data of volumes; this package does not.
//
// The package takes everything as arguments and keeps no state between runs, so that restores may run at the same time
// or in another process. It imports the server's archive, discovery, item, itemaction, kubeapi, modifiers and results,
// the hub of restore item actions, and client-go.
package restore
