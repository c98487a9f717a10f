// Package limit is the policy cleat.dev/limit for loads on nodes: no more than a fixed number of them, of all kinds and
// nodes, is in preparation at once. The number is config.loads, or else the node agent's prepareQueueLength; without
// either there is no limit.
//
// The package may import framework. Start with policy.go.
package limit
