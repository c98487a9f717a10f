// Package drift finds out how an object in the cluster differs from that of a backup.
//
// Compare in compare.go walks four states of the object at the same time: as it is in the archive, after what every
// restore resets, after the user's modifiers, and in the cluster. A field is no difference if the restore has reset it,
// or if nobody chose its value on either side: the API server and the controllers of Kubernetes fill in fields, which
// owners.go tells by metadata.managedFields. rules.go says which differences stay although the user wants the object
// updated: fields that cannot be changed, and those whose change would hand over something that another object holds
// now.
//
// The package computes and sends no requests.
package drift
