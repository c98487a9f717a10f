// Package pluginhost finds plugin binaries, runs them and hands their actions and stores to the rest of
// the server as hubs. The rest of the server does not know that there are processes.
//
// The packages below it, each of which imports only those that follow it:
//
//	directory   the binaries in the plugin directory, and which of them may run
//	process     one supervised process for each binary
//	calls       what every call has: its properties, deadline, errors, metrics and span
//	output      what a process writes to stdout and stderr
//
// On top of them, in this package:
//
//	Host, Session   host.go, session.go, plugins.go              which plugin to call for what, and the log of a run
//	locations       locations.go, renewed.go                     plugins that serve one location per process
//	catalog         catalog.go, order.go, find.go, entry.go      which version of which plugin is used, why, in which order
//	generation      generation.go, source.go                     what the plugin directory held when a run began
//	scanner         scanner.go, question.go                      what it holds now; makes the next generation
//	built-ins       builtin.go, inprocess.go                     plugins that are called without a process of their own
//
// It may import framework, versioning, gRPC and its own subpackages; of the rest of the server pluginlock alone,
// and nothing of Kubernetes but its clock. Start reading at host.go.
package pluginhost
