// Package hostenv defines which environment variables a host passes on to its plugins. The server starts plugins with
// them, and the conformance suite does the same, so that a plugin is tested in the environment that it will run in.
// Plugin authors do not need this package.
//
// It imports the standard library only.
package hostenv
