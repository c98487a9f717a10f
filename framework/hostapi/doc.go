// Package hostapi is for programs that host plugins, and for tests that look behind the framework. It is not part of
// what COMPATIBILITY.md promises to authors and may change in every release. An author has no need to import it.
//
// It imports framework and what that imports. Start reading at hostapi.go.
package hostapi
