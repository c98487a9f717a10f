// Package takeover replaces the running Velero of a namespace by cleat, and puts it back.
//
// Velero's Deployment stays, without pods, and says in an annotation how many it had. A second Deployment beside it is a copy that runs
// cleat, with the same plugins, volumes, variables, rights and place. So the way back is to delete the one and to scale the other.
//
// Start reading at takeover.go; check.go has what is looked for before. The package works through a client of the caller's and imports
// nothing of the running server.
package takeover
