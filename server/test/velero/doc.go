// Package velero runs the real Velero beside cleat in tests and benchmarks: its server and its command line, which are
// one program, its object store plugin for S3, and its library for repositories of kopia, in the program uploader. The
// program settings prints which flags it has, and which keys its ConfigMaps have.
//
// The module in programs pins all of them, and has the source of the uploader. Build compiles them from the Go module
// proxy into the user's cache, once for each content of that module. That needs minutes of CPU, so tests call Get, which
// skips them if the programs have not been built ("make velero"). Start reading at programs.go; server.go runs a server.
//
// The package may only import the standard library, testify and package programs.
package velero
