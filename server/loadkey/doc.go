// Package loadkey has the keys with which loads are signed, see framework/loadproof: one secret, in a Secret of the server's namespace,
// from which the key of each backup and restore is derived. Whoever may write custom resources of Velero may not read that.
//
// The server creates the Secret. Node agents wait for it. Deleting it replaces the secret: the loads that are at work by then are refused.
package loadkey
