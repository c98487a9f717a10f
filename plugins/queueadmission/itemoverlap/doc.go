// Package itemoverlap is the admission policy cleat.dev/item-overlap: first come, first served, but two backups that may
// take the same object, or the same volume, never run at the same time. It lets more run at once than
// cleat.dev/namespace-overlap: two backups of one namespace run together when their filters let no object through twice.
// When in doubt, one waits.
//
// It is certain in two cases:
//
//   - No resource is in both. Resources are told apart by their names: built-in ones in all their spellings, others only
//     when their API groups differ, because a custom resource has several names that only the cluster knows. Pods, volume
//     claims and volumes count as one, for the sake of the data. A pattern, or a resource policy, may mean anything.
//
//   - No label selector lets the same labels through twice, as app=a and app=b. Pods of both may still use one volume
//     claim, which is backed up with them whatever its labels are; so selectors count only for backups that take neither
//     pods nor claims, unless the config says that no volume is shared:
//
//     sharedVolumes: false
//
// Two backups without a common namespace wait for each other, too, when both take the same resources that belong to no
// namespace, as with --include-cluster-resources; and when one of them takes all volumes, and the other any.
//
// What is only read along with other objects does not count: the Namespace itself, and what belongs to no namespace and
// comes for the sake of another object, as the ClusterRoleBinding of a service account. What actions of other vendors
// bring into a backup against its filters cannot be foreseen.
//
// Start reading at policy.go; filter.go compares two backups, resources.go and selectors.go their parts.
package itemoverlap
