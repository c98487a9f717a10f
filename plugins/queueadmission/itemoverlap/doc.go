// Package itemoverlap is the admission policy cleat.dev/item-overlap: first come, first served, but two backups that may
// take the same object never run at the same time. It lets more run at once than cleat.dev/namespace-overlap: two backups
// of one namespace run together when their filters let no object through twice. When in doubt, one waits.
//
// It is certain in two cases:
//
//   - No resource is in both. Resources are told apart by their names: built-in ones in all their spellings, others only
//     when their API groups differ, because a custom resource has several names that only the cluster knows.
//
//   - No label selector lets the same labels through twice, as app=a and app=b. Pods of both may still use one volume
//     claim, which is backed up with them whatever its labels are; so selectors count only for backups that take neither
//     pods nor claims, unless the config says that no volume is shared:
//
//     sharedVolumes: false
//
// The Namespace object itself is in every backup of a namespace; it is only read, and does not count.
//
// Start reading at policy.go; filter.go compares two backups, resources.go and selectors.go their parts.
package itemoverlap
