// Package app puts programs together: it finds the plugins, elects a leader, serves metrics and health, and starts the
// controllers with their dependencies. Commands call it; it is independent of flags and terminals.
//
// Start reading at serve.go, the life of a server from its checks to its end. controllers.go adds the controllers that
// backups.go, restores.go, operations.go, requests.go and storage.go make. plugins.go (the plugin host), lead.go (the
// lease), endpoints.go and logr.go can be shared by other programs.
//
// It may import every package of the server except the command line.
package app
