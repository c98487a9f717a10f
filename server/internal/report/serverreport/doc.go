// Package serverreport defines the reports of a server about itself: its plugins, its policies, and the operations that
// it follows. A server answers a ServerStatusRequest with reports as JSON, each in an annotation beside the fields that
// Velero's clients read.
//
// A report is plain data. Package server/internal/report/pluginreport makes a PluginReport from a plugin host, package
// server/internal/control/policy makes a PolicyReport, and package server/internal/report/operationreport makes
// Operations; the packages below server/cli/status render them. This package imports framework and the names of the
// kinds from versioning, and nothing of the server. Start reading at plugins.go.
package serverreport
