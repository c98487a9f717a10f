// Package pluginhost finds plugin binaries, runs them and hands their actions and stores to the rest of
// the server as hubs. Nobody above it knows that there are processes.
//
// What happens between a hub's method and the plugin's, from the top:
//
//	Host, Session      host.go, session.go, stores.go   whom to call for what, and the log of an operation
//	catalog            catalog.go, order.go, find.go    which version of which plugin is used, why, in which order
//	generation         generation.go, source.go         what the plugin directory held when an operation began
//	scanner            rescan.go, watch.go, discover.go  what it holds now; makes the next generation
//	conn               conn.go, calls.go                one call: deadline, retry, whose fault an error is
//	observer           observer.go, metrics.go, spans.go  what a call is measured by, and its span
//	supervisor         supervisor.go, breaker.go        one process that is started again when it has died
//	process            process.go, child.go, binary.go  one run of a binary, its end and its last words
//	trust              trust.go                         which binaries may run, and what they learn of the server
//	lockFile           lockfile.go, lock.go             the lock that trust keeps to, and how it changes
//	output             output.go, lines.go, logline.go  what a process writes to stdout and stderr
//	Limits             limits.go                        how much of that, and how large its answers may be
//
// A built-in plugin has the same conn-shaped surface without a process below it: inprocess.go.
//
// It may import framework, versioning, proto, go-plugin and gRPC; of the server pluginlock alone, and nothing of
// Kubernetes but its clock. Start reading at host.go.
package pluginhost
