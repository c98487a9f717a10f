// Package drift finds the differences between an object in the cluster and the same object in a backup.
//
// Compare in compare.go walks four states of the object at the same time: in the archive, after the reset of every
// restore, after the user's modifiers, and in the cluster. A field is no difference if the restore has reset it, or if
// its value was filled in on both sides by the API server or the controllers of Kubernetes. owners.go recognises such
// fields by metadata.managedFields. rules.go lists the differences that remain even if the user requests an update:
// fields that cannot be changed, and fields whose change would take something from another object that holds it now.
//
// The package computes and sends no requests.
package drift
