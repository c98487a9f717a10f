// Package takeover has the commands that replace a running Velero by cleat and put it back.
//
// They print what server/internal/setup/takeover finds and does. Start reading at takeover.go; arguments.go reads the
// flags of Velero's server.
package takeover
