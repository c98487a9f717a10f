// Package priority is the admission policy cleat.dev/priority: the most important backup goes first, and those that wait
// become more important with time, so that nobody starves. Overlapping backups never run at the same time.
//
// The importance of a backup is a whole number: that of its annotation cleat.dev/priority, or else that of the first rule
// of the config that fits it, or else 0. Every interval that it has waited (15 minutes unless the config says otherwise)
// adds 1. The queue is ordered by that, then by the order it had; then the rule of cleat.dev/namespace-overlap
// decides, in this order, who may start.
//
//	rules:
//	- {schedule: hourly-orders, priority: 10}
//	- {labels: {tier: gold}, priority: 5}
//	age: 30m
//
// Start reading at policy.go; config.go is what users write.
package priority
