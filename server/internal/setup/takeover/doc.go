// Package takeover replaces the running Velero of a namespace by cleat, and puts it back.
//
// Velero's Deployment stays, without pods, and has their former number in an annotation. A second Deployment beside it
// is a copy that runs cleat, with the same plugins, volumes, variables, rights and scheduling. So the way back is to
// delete the copy and to scale the original.
//
// Start reading at takeover.go; check.go looks for features that a take-over would lose. The package works through the
// caller's client and imports nothing of the running server.
package takeover
