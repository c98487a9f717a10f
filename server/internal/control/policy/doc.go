// Package policy calls the plugins that decide, as configured, and applies the failure policy when they fail.
//
//	Admission   admission.go   which queued backups may start
//	Soothing    soothing.go    whether a load may begin to prepare
//	Manifests   manifests.go   files that describe a backup; writing.go runs one writer, pending.go queues its items
//
// Each looks up its plugin for every call (its file may have been replaced, or removed), checks that the plugin still
// accepts the configuration, passes it on, and bounds the call. A failure is reported once when it begins, changes and
// ends: see health.go; every one is counted: see metrics.go. report.go describes the state of all policies.
//
// It may import config, pluginhost, store for the names of files, the hubs of versioning, and plugins for the names of
// built-in ones. Start reading at policies.go.
package policy
