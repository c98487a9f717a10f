// Package debug has the command that collects information for the analysis of a problem. Start reading at debug.go;
// bundle.go has the file, collect.go its contents. server/cli/redact leaves out the secrets.
package debug
