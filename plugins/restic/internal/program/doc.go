// Package program runs the restic program: it finds out what a version can do, passes secrets without command line,
// environment or file, ends it when a context ends, and reads what it prints.
//
// Start reading at program.go; command.go runs one command, messages.go has the JSON that restic prints, error.go its
// failures.
package program
