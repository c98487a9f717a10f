// Package metrics counts backups, restores, deletions, schedules and locations under the names of Velero's metrics. It
// may import the API types only.
package metrics
