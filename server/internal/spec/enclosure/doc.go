// Package enclosure decides what becomes of the items of a restore that must not act on anything outside of the
// namespaces into which it restores: a rehearsal.
//
// Start with Rules.Decide: an item is written, sent to the API server as a dry run, or left out, and what would reach
// beyond the namespaces is removed from it. pods.go has what applies to pods and their templates, and services.go what
// applies to the other kinds. The functions are pure: raw JSON in, raw JSON out.
//
// A NetworkPolicy, a ResourceQuota and Pod Security in the namespaces come on top: they also hold for objects that
// controllers make of what is restored.
//
// The package imports the types of Kubernetes and of custom resources only.
package enclosure
