// Package process runs plugin binaries: one supervised process each, which is started when it is called, again after it
// has died, and stopped when nobody has used it for a while.
//
//	Pool        pool.go                          the processes of one host, and what they have in common
//	Supervisor  supervisor.go, breaker.go, health.go keeps one process available
//	Inputs      inputs.go, renew.go              files that processes have read, and what is done when they change
//	Conn        conn.go                          a call: gets the process, sets the deadline, explains the error
//	process     process.go, child.go             one run of a binary, from the handshake to its exit status
//	offerTLS    certificate.go                   the certificate that the host shows to one process
//	Binary      binary.go, interpreter.go        the opened file, what identifies its content, a sealed copy of it, and what runs a script
//	killMarked  mark_linux.go                    ends what a process has started, wherever that went
//	Limits      limits.go, memory.go             how large replies, logs and processes may be
//
// It is independent of plugin directories, kinds, hosts and sessions. It may import calls, output, owners, framework,
// go-plugin and gRPC. Start reading at supervisor.go.
package process
