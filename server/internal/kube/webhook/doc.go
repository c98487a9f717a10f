// Package webhook knows for which requests the API server calls an admission webhook.
//
// Configuration in webhook.go is what a configuration of webhooks, mutating or validating, says about that. It imports
// nothing of the project.
package webhook
