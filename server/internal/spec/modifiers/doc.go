// Package modifiers changes objects before they are restored, by the rules in a ConfigMap that a restore names in
// spec.resourceModifier.
//
// Start with Parse, which validates a ConfigMap before anything is restored, and Rules.Apply, which changes one object.
// conditions.go selects the objects of a rule, and patches.go has the three kinds of patches.
//
// The rules are Velero's. Where its documentation is incomplete, the package follows Velero's behavior:
//   - The conditions of all rules are evaluated on the original object. The changes of the rules accumulate in their
//     order.
//   - groupResource is a glob over "pods" or "deployments.apps" in which * and ? do not match dots, so *.* matches
//     every resource in a group whose name has no dot. ** matches dots. Short names are not resolved.
//   - resourceNameRegex may match any part of the name.
//   - namespaces are those of the backup. Cluster-scoped objects meet this condition.
//   - A rule with a failing "test" operation changes nothing and is not an error. A rule that cannot be applied changes
//     nothing and is an error of the object, but the other rules are still applied.
//
// In one thing it is stricter: a rule that changes metadata.namespace has no effect in Velero, and is an error here.
// Another apiVersion, kind or name takes effect.
//
// The package imports the server's item, filter and configmap, the types of Kubernetes and the patch libraries.
package modifiers
