// Package redact leaves out what is, or looks like, a secret: in texts such as the lines of a log, in decoded JSON, and
// in the configuration of a plugin, whose schema says more. Start reading at redact.go.
package redact
