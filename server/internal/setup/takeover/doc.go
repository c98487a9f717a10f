// Package takeover replaces the running Velero of a namespace by cleat, and puts it back.
//
// Velero's Deployment stays, without pods, and says in an annotation how many it had. A second Deployment beside it is
// a copy that runs cleat, with the same plugins, volumes, variables, rights and scheduling. So the way back is to
// delete the copy and to scale the original.
//
// Start reading at takeover.go; check.go looks for what a take-over would miss. The package works through the caller's
// client and imports nothing of the running server.
package takeover
