// Package fifo is the policy cleat.dev/fifo for the queue of backups: first come, first served, while fewer backups are
// running or ready than the limit allows. It considers nothing else, so backups of the same namespaces may run at once.
// It takes no configuration.
//
// The package may import framework. Start with policy.go.
package fifo
