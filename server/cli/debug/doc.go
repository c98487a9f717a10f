// Package debug has the command that collects what is needed to find out why something does not work. Start reading at
// debug.go; bundle.go is the file, collect.go what is in it, redact.go what is left out.
package debug
