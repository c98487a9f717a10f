// Package fifo is the policy cleat.dev/fifo for the queue of backups: first come, first served, as long as fewer
// backups are running or about to run than the limit allows. It looks at nothing else, so backups of the same namespaces
// may run at once. It takes no configuration.
//
// The package may import framework. Start with policy.go.
package fifo
