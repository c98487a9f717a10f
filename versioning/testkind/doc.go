// Package testkind is a kind of plugin for tests, ItemWeigher in three versions. It is built as the real kinds are, in
// folders with the same names:
//
//	proto/itemweigher/v1       the wire                           proto/cleat/<kind>/v1
//	framework/itemweigher/v1   what an author implements          framework/<kind>/v1
//	versioning/itemweigher     the hub, and a facade per version  versioning/<kind>
//	kinds                      the list of versions               versioning/kinds
//
// The tests use it to show what a kind and a version cost, and that a version is removed by deletion. Start reading at
// accept_test.go.
package testkind
