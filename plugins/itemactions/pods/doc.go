// Package pods holds the built-in actions on pods: Backup and AddClaims see to it that the volumes and the
// priority class of a pod come with it, Restore takes off what ties a pod to the cluster it was in.
//
// It imports framework only. Read backup.go first.
package pods
