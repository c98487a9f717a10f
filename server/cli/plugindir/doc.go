// Package plugindir gives commands access to a plugin directory without a server: they run a plugin host of their own
// with the settings of the server's configuration file. The commands about plugins and "queue simulate" use it.
//
// Start reading at directory.go.
package plugindir
