// Package output reads what a plugin process writes to stdout and stderr: it splits it into lines, understands them as
// log lines, limits their number and remembers the last ones for error messages.
//
// Of this module it may import shorten and framework/hostapi. Start reading at output.go.
package output
