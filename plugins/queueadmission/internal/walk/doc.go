// Package walk is shared by the built-in admission policies. It walks along the queue and admits each backup for which
// there is a free slot and that overlaps none ahead of it. A policy defines the order of the walk and the overlap.
//
// It imports framework only. Start reading at walk.go; held.go records the namespaces of the backups ahead.
package walk
