// Package pluginreport is what is shown of plugins: which there are, which of them the server calls and why, and what
// is wrong with the others. A server gives it to the commands as JSON in an annotation of a ServerStatusRequest, beside
// what Velero's own clients read there; a command that looks at a plugin directory makes it from a host of its own.
//
// report.go has its form and makes it from a host, details.go asks for more about some plugins, annotation.go is the
// way through the API server. The package imports the server's pluginhost and pluginlock. Start reading at report.go.
package pluginreport
