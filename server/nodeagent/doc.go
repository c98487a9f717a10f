// Package nodeagent is the agent of a node: it moves the data of volumes. A load, which is a PodVolumeBackup, PodVolumeRestore, DataUpload
// or DataDownload, passes through these phases, each written by one conditional write:
//
//	New -> Accepted    queue.go     admitted by the policy, oldest first, and noted in the ledger (package ledger)
//	    -> Prepared    machine.go   its volume can be opened on this node (expose.go, package hostpath)
//	    -> InProgress  slots.go     it has one of the slots of the node; transfer.go has the mover move the data
//	    -> Completed, Failed or Canceled
//
// The custom resources are the whole state. An agent that starts ends what nobody moves any more, and goes on with all else.
//
// A load whose agent does not return, because its node is gone or it is away for too long, is ended by any other agent (orphans.go).
//
// All agents are alike. Which of them takes a load is decided by the load: a pod's volume belongs to the agent of the pod's node. A
// DataUpload or DataDownload can be accepted by any; turns.go says by which. All reads of loads are from the cache.
//
// The four kinds differ in kinds.go only. Whoever makes the volumes of one accessible implements Exposer; whoever moves data implements
// Mover.
//
// It may import the API types, run, policy and the hubs of versioning, but no engine and no controller. Start reading at agent.go.
package nodeagent
