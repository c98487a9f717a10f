// Package preparequeue is the policy cleat.dev/prepare-queue for loads on nodes: at most a fixed number of loads, of
// all kinds and on all nodes, is prepared at once. The number is config.loads, or else the node agent's
// prepareQueueLength; without either there is no limit.
//
// The package may import framework. Start with policy.go.
package preparequeue
