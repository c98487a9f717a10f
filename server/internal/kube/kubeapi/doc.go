// Package kubeapi is the server's client of the Kubernetes API for raw JSON, and the policy by which the
// server repeats requests.
//
// Backup and restore move objects as the bytes that the API server sends and accepts; Client carries
// these bytes. Start with Client.Do in client.go. What a request consists of is in request.go. Which
// failures are worth another attempt, and after which pause, is decided in retry.go and nowhere else:
// code that uses a typed client takes Transient, Backoff and Pause from there. health.go keeps track of
// whether the API server responds at all, dependency.go of the webhooks and aggregated APIs that do not, and webhook.go
// finds out which requests need a webhook. dryrun.go makes all writes of a client be without effect.
//
// The package imports client-go, and of the server waits and webhook only.
package kubeapi
