// Package kinds lists the kinds of plugins that the server supports, and their versions on the wire: kinds.go, where a
// version is one line. It imports the facades and is imported by the server.
package kinds
