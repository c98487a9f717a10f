// Package versioning is the layer between the server and the wire. The server uses, per kind of plugin, one hub
// interface in the newest shape of that kind (versioning/<kind>/hub.go). Each version of the kind on the wire has one
// facade (versioning/<kind>/v1.go) that lifts it to the hub, maps its errors, and rejects replies that break the
// contract (Validate of the package in framework, or versioning/<kind>/validate.go). Each version is described once, by
// Kind of its package in framework and by V1 here. versioning/kinds is the one list of all kinds and their versions.
//
// A new version of a kind costs a proto, an author's interface with its glue in framework, one facade, one
// test, and one line in versioning/kinds. To remove a version, delete these.
//
// This package holds what is the same for all kinds: how versions are listed (kind.go) and the newest one is chosen
// (negotiate.go), how a plugin reports what it serves (list.go, describe.go), how a facade calls and checks the reply
// (ask.go), and how the server sees a plugin's error (error.go). It and its subpackages import the protos and
// framework, never the server. Start reading at kind.go.
package versioning
