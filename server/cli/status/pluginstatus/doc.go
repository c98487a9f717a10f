// Package pluginstatus composes what users read about plugins: the list, the details of each plugin, the order of
// actions, and the relation of a plugin directory to its lock. Each document is also printed as JSON and YAML.
//
// It consists of functions of reports and locks, and starts no plugin. Start reading at list.go.
package pluginstatus
