// Package policy asks the plugins that decide, as the configuration says, and does what it says when they cannot.
//
//	Admission   admission.go   which queued backups may start
//	Soothing    soothing.go    whether a load may begin to prepare
//	Manifests   manifests.go   files that describe a backup; writing.go is the part of one writer, pending.go the items it has yet to take
//
// Each finds its plugin anew for each call (its file may have been replaced, or removed), makes sure that the plugin
// still takes the configuration, hands it over, and bounds the call. A failure is reported once when it begins, changes
// and ends: see health.go; every one is counted: see metrics.go. report.go describes the state of all policies.
//
// It may import config, pluginhost, store for the names of files, the hubs of versioning, and plugins for the names of
// built-in ones. Start reading at policies.go.
package policy
