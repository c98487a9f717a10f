// Package pluginlock reads and writes plugins.lock: which binaries of a plugin directory may run, by their content, and
// which plugins each of them has. An operator keeps the file with the rest of the configuration; a server that has one
// runs only the binaries in it.
//
//	apiVersion: cleat.dev/v1
//	plugins:
//	- path: vendor/mover
//	  sha256: 9b74c9897bac770ffc029102a200c5de...
//	  provides:
//	  - {kind: BackupItemAction, version: 2, name: example.io/mover}
//
// lock.go has the type and its checks of a binary, parse.go reads the file, write.go writes it. The package imports
// framework for the names of kinds, versioning for what a plugin lists, and nothing of the server. Start reading at
// lock.go.
package pluginlock
