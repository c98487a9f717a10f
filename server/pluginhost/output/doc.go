// Package output reads what a plugin process writes to stdout and stderr: it splits it into lines, understands them as log
// lines, limits their number and remembers the last ones for error messages.
//
// It may import shorten, and nothing else of this module. Start reading at output.go.
package output
