// Package release builds the files of a release, so that the same source gives the same bytes: programs of the server
// and of plugins, images of them without a container runtime, archives, and a list of the modules in each program
// (SBOM).
//
// The image of a plugin has the form of Velero's plugin images: run as an init container, it copies its files to the
// server. The restic program of the data mover is built from its own module, which the module in restic pins. Beside
// each program are the licenses of everything that it contains.
//
// The command cleat-release uses it. Start reading at product.go.
package release
