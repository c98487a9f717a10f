// Package framework is what the author of a plugin imports. A plugin is a program whose main hands its
// implementations to Serve:
//
//	func main() {
//		framework.Serve(
//			biav1.Register("example.io/stamp", newStamp),
//			riav1.Register("example.io/unstamp", newUnstamp),
//		)
//	}
//
// Each kind of plugin is a Go interface in a package of its own, framework/<kind>/<version>, with a
// Register function. This package knows none of them: it holds what they share.
//
//   - registration.go: what a Registration is, kind.go: how a kind looks up its implementations
//   - register.go: RegisterAll puts them on any gRPC registrar; serve.go: Serve makes them a process
//   - guard.go: panics and errors become gRPC statuses there, once for all kinds
//   - stack.go, log.go, flags.go: error locations, log lines, command line
//   - lister.go, info.go: what a plugin tells of itself, in Velero's way and in ours
//   - option.go, config.go: what an implementation says of its config, and gets of it
//
// Beside the kinds there are packages that a plugin has nothing of unless it imports them: framework/operations for
// work that goes on after its call, framework/plugintest and framework/conformance for its tests. README.md is the
// author's guide.
//
// How long calls may take, and which are asked again, README.md has for all kinds.
//
// From Serve on, os.Stdout and os.Stderr are go-plugin's pipes to the host, which ties what comes there to no backup:
// log with the logger that the function gets which makes the implementation.
//
// A plugin built on this package runs in this project's server, and in stock Velero as far as Velero knows its kinds.
//
// The package and those below it import the protos, go-plugin, gRPC and apimachinery: neither client-go
// nor k8s.io/api, neither controller-runtime nor the server. Start reading at registration.go.
package framework
