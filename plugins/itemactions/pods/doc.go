// Package pods holds the built-in actions on pods: Backup and AddClaims add the volume claims and the priority class of
// a pod, Restore removes what ties a pod to its previous cluster, InitHooks adds the init containers of restore hooks.
//
// It imports framework only. Read backup.go first.
package pods
