// Package settings reads the ConfigMap with which users configure the node agents (--node-agent-configmap): Velero's
// document, in JSON or YAML, under any one key.
//
// An agent reads it once, when it starts. A document that cannot be parsed is an error; a key that is not known,
// because a newer version has it, and a value without a meaning, such as a limit of -1, are ignored with a warning.
//
// The package imports the types of Kubernetes and server/internal/kube/configmap. Start reading at settings.go, the
// document; concurrency.go has the rules for the limit of a node.
package settings
