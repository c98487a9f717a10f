// Package priority is the admission policy cleat.dev/priority: the backup of the highest priority starts first, and the
// priority of waiting backups increases with time, so that none starves. Overlapping backups never run at the same
// time.
//
// The priority of a backup is a whole number: its annotation cleat.dev/priority, or else the priority of the first
// matching rule of the config, or else 0. Each interval of waiting (15 minutes unless the config sets another) adds 1.
// The queue is ordered by priority, then by its previous order; in this order the rule of cleat.dev/namespace-overlap
// decides which backups may start.
//
//	rules:
//	- {schedule: hourly-orders, priority: 10}
//	- {labels: {tier: gold}, priority: 5}
//	age: 30m
//
// Start reading at policy.go; config.go has the configuration.
package priority
