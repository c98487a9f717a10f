// Package versioning is what stands between the server and the wire. The server knows, per kind of plugin, one
// hub interface in the newest shape of that kind (versioning/<kind>/hub.go). Each version of the kind on
// the wire has one facade (versioning/<kind>/v1.go) that lifts it to the hub, maps its errors, and refuses
// replies that break the contract (versioning/<kind>/validate.go). versioning/kinds is the one list of all
// kinds and their versions.
//
// A new version of a kind costs a proto, an author's interface with its glue in framework, one facade, one
// test, and one line in versioning/kinds. Taking a version away is deletion of these.
//
// This package holds what is the same for all kinds: how versions are listed (kind.go) and the newest one is chosen
// (negotiate.go), what a plugin says it serves (list.go, describe.go), how a facade asks and checks the
// answer (ask.go), and what an error of a plugin looks like to the server (error.go). It and those below it import the protos and framework, never the
// server. Start reading at kind.go.
package versioning
