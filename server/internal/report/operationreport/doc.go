// Package operationreport makes the reports of package serverreport on asynchronous operations: from the monitor of a
// running server, or from a file of operations. Start reading at report.go.
package operationreport
