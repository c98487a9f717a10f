// Package node is the agent of a node: it moves the data of volumes. A load, which is a PodVolumeBackup,
// PodVolumeRestore, DataUpload or DataDownload, passes through these phases, each written by one conditional write:
//
//	New -> Accepted    queue.go     admitted by the policy, oldest first, and noted in the ledger (package ledger)
//	    -> Prepared    machine.go   its volume can be opened on this node (expose.go, package hostpath)
//	    -> InProgress  slots.go     it has one of the slots of the node; transfer.go calls the mover
//	    -> Completed, Failed or Canceled
//
// The data of a load is moved in a pod of its own (podmover.go, package loadpod), which outlives the agent, or by a
// child of the agent. A mover that ends without an answer is tried again (attempts.go), if need be after the volume of
// a DataUpload or DataDownload was exposed again on another node: then the load is New again.
//
// The custom resources and the pods are the whole state. An agent that starts continues all loads.
//
// If the node of an agent no longer exists, or the agent is away for too long, any other agent ends its loads, or has
// them exposed again (orphans.go).
//
// All agents are alike. The load determines which agent takes it: a pod's volume belongs to the agent of the pod's
// node; a DataUpload or DataDownload can be accepted by any agent, and turns.go determines whose turn it is. All loads
// are read from the cache.
//
// signals.go reports to restored pods that their volumes are restored, in a volume of their own. In a pod of Velero,
// the restored volumes are marked instead (transfer.go), and signals.go removes the marks that the pod has read.
//
// The four kinds differ in kinds.go only. An Exposer makes the volumes of a kind accessible; the plugins in Movers move
// data.
//
// The package may import the API types, run, policy and the hubs of versioning, but no engine and no controller. Start
// reading at agent.go.
package node
