// Package framework is the package that authors of plugins import. A plugin is a program whose main hands its
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
// Register function. This package imports none of them. It has the code that they share:
//
//   - registration.go: Registration, and the options of an implementation
//   - config.go: the configuration of an implementation, with its schema
//   - serve.go: Serve runs the implementations as a plugin process
//   - setup.go, log.go, errors.go: the setup that a constructor gets, loggers, typed errors
//   - resource.go, operation.go: types that several kinds use
//
// The code below them is in internal/glue: the gRPC server of a kind, the lists of implementations in the form of
// Velero and in that of this project, panics and errors as gRPC statuses, log lines and the command line.
//
// Further packages are linked only when a plugin imports them: framework/operations for work that continues after its
// call, framework/plugintest and framework/conformance for its tests. README.md is the author's guide. It also says how
// long calls may take, and which calls are repeated.
//
// After Serve was called, os.Stdout and os.Stderr are go-plugin's pipes to the host, which cannot attribute their lines
// to a backup. Use the logger of Setup instead.
//
// A plugin built on this package runs in this project's server, and in stock Velero as far as Velero knows its kinds.
//
// The package and those below it import the protos, go-plugin, gRPC and apimachinery: neither client-go
// nor k8s.io/api, neither controller-runtime nor the server. Start reading at registration.go.
package framework
