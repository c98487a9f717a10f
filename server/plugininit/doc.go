// Package plugininit writes the project of a new plugin, for `cleat plugin init`: a Go module that builds, with an
// implementation of each kind that was asked for, a test of it behind the real wire, a Makefile, a Dockerfile and a file
// for CI. What is written is what the templates below templates/ say: those of a kind are in templates/kinds.
//
// It imports framework. Start reading at project.go; kinds.go is the list of what can be written.
package plugininit
