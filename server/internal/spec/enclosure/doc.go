// Package enclosure decides what becomes of the items of a restore that must not act on anything outside of the
// namespaces into which it restores: a rehearsal.
//
// Start with Rules.Decide: an item is written, sent to the API server as a dry run, or left out. What is written is
// encoded anew, with the fields only that are known to stay inside: kinds.go lists the kinds, fields.go reads the lists
// of fields, pods.go has those of pods and their templates, and volumes.go those of claims and of what has data. The
// functions are pure: raw JSON in, raw JSON out.
//
// A NetworkPolicy, a ResourceQuota and Pod Security in the namespaces come on top: they also hold for objects that
// controllers make of what is restored.
//
// The package imports the types of Kubernetes and of custom resources, and the decoder of foreign objects only.
package enclosure
