// Package glue connects the Go implementations of a plugin with gRPC. Package framework and the packages of the kinds
// export the parts for authors; package hostapi exports the parts for hosts.
//
//   - registration.go: Registration, what a process serves; register.go binds it to gRPC
//   - kind.go: Kind and Handlers, with which the service of a kind finds implementations
//   - instance.go: implementations, made when needed, one for each configuration
//   - setup.go, config.go, schema.go: what the constructor of an implementation gets
//   - call.go, log.go, slog.go: loggers of processes and of calls
//   - guard.go, errors.go, stack.go: errors and panics become gRPC statuses
//   - lister.go, info.go: what a process says about itself
//   - serve.go, flags.go, handshake.go: a process that go-plugin can talk to
//
// It imports the protos, go-plugin, gRPC and apimachinery, and no other package of framework. Start reading at
// registration.go.
package glue
