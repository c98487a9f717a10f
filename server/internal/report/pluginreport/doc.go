// Package pluginreport makes the report about plugins: the found plugins, the ones that the server calls and why, and
// the reasons why others cannot be used. A server adds the report as JSON to the annotations of a ServerStatusRequest,
// which clients of Velero ignore. A command that shows a plugin directory makes the report from a host of its own.
//
// source.go makes the report of a host, report.go the part of each plugin, calls.go has the kinds that the server
// calls, and actions.go asks actions which items they apply to. The form of the report is in package serverreport. The
// package imports the server's pluginhost and pluginlock. Start reading at report.go.
package pluginreport
