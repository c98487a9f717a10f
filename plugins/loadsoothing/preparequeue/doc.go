// Package preparequeue is the policy cleat.dev/prepare-queue for loads on nodes: at most a fixed number of loads, of
// all kinds and on all nodes, is prepared at once. The number is config.loads, or else the node agent's
// prepareQueueLength; without either there is no limit.
//
// Loads of restores go first: a load of a backup leaves a place free for each load of a restore that waits, and those
// of config.placesForRestores that no restore uses.
//
// The package may import framework. Start with policy.go.
package preparequeue
