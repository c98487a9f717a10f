// Package suite runs a plugin for the rules of package rules: it starts the target, asks what it serves, gives each
// check a connection to its plugin, starts processes again that have exited, and performs the checks.
//
// It imports framework, the protos and the packages beside it, and knows no rule. Start reading at suite.go; run.go
// performs the checks, subject.go is what a check is given, and host.go keeps the process of a plugin.
package suite
