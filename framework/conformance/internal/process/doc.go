// Package process runs the binary of a plugin as the server does: with the environment of its host, by a link to the
// open file, and with an offer of mutual TLS. It records what the process writes, and reads what resources it holds.
//
// It imports framework for the handshake, and go-plugin's wire; it knows no kinds and no rules. Start reading at
// process.go.
package process
