// Package plugininit writes the project of a new plugin, for `cleat plugin init`: a Go module that builds, with an
// implementation of each selected kind, a test of it over the wire, a Makefile, a Dockerfile and a file for CI. The
// templates are in templates/, the templates of a kind in templates/kinds.
//
// It imports framework. Start reading at project.go; kinds.go lists the kinds.
package plugininit
