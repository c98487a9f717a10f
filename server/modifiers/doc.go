// Package modifiers changes objects on their way into the cluster, by rules that a user wrote into a
// ConfigMap and names in spec.resourceModifier of a restore.
//
// Start with Parse, which checks a ConfigMap as a whole before anything is restored, and Rules.Apply,
// which changes one object. conditions.go says which objects a rule is for, patches.go has the three ways
// to change one.
//
// The rules are Velero's. What its documentation leaves open is done as Velero does it:
//   - The conditions of all rules are looked at in the object as it was before the first rule; the
//     changes add up, in the order of the rules.
//   - groupResource is a glob over "pods" or "deployments.apps" in which * and ? stop at dots, so that
//     *.* is every group whose name has no dot. ** does not stop. Short names are not resolved.
//   - resourceNameRegex may match any part of the name.
//   - namespaces are those of the backup. Cluster-scoped objects pass this condition.
//   - A rule whose operation "test" fails changes nothing, which is no error. A rule that cannot be applied
//     changes nothing either, and that is an error of the object, which the other rules still change.
//
// The package imports the server's item, filter and configmap, the types of Kubernetes and the patch
// libraries.
package modifiers
