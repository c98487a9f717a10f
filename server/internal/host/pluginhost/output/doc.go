// Package output reads stdout and stderr of a plugin process: it splits them into lines, parses these as log lines,
// limits their number and keeps the last lines for error messages.
//
// Of this module it may import shorten and framework/hostapi. Start reading at output.go.
package output
