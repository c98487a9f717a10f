// Package itemoverlap is the admission policy cleat.dev/item-overlap: first come, first served, but two backups that
// may take the same object or the same volume never run at the same time. It admits more backups at once than
// cleat.dev/namespace-overlap: two backups of one namespace run together if their filters have no object in common. In
// doubt, one of them waits.
//
// Two backups certainly have nothing in common in two cases:
//
//   - They have no resource in common. Resources are compared by name: built-in ones in all their spellings, others
//     only by API group, because a custom resource has several names that only the cluster knows. Pods, volume claims
//     and volumes count as one resource, because of the data. A pattern or a resource policy may match anything.
//
//   - Their label selectors cannot match the same labels, like app=a and app=b. Pods of both may still use one volume
//     claim, which is backed up with them whatever its labels are. So selectors count only for backups that take
//     neither pods nor claims, unless the config states that no volume is shared:
//
//     sharedVolumes: false
//
// Two backups without a common namespace wait for each other, too, if both take the same cluster-scoped resources, as
// with --include-cluster-resources, or if one of them takes all volumes and the other any.
//
// Objects that are only added along with other objects do not count: the Namespace itself, and cluster-scoped objects
// such as the ClusterRoleBinding of a service account. Objects that actions of other vendors add against a backup's
// filters cannot be foreseen.
//
// A backup also waits for a restore that writes objects which it may take, until the restore and its operations have
// ended. A restore waits for nothing.
//
// Start reading at policy.go; filter.go compares two backups; resources.go and selectors.go compare their parts.
package itemoverlap
