// Package conformance tests plugins from outside, over their wire, against the contracts of their kinds: what the
// comments in the protos and in framework promise. It is for authors, who run it in their own tests, and for operators
// who want to know what they are about to install (cleat plugin test BINARY).
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, conformance.Binary("./my-plugin"))
//	}
//
// What a plugin announces decides what is tested. A rule that cannot be checked, because no sample item is selected or a
// config is missing, is skipped and says so; see WithItem and WithConfig. Nothing but a breach fails a test, so a look at
// what was skipped belongs to it. Testing a plugin runs it: an action is asked about items that do not exist, and an
// ObjectStore is filled and emptied.
//
// The package may import framework, the protos, go-plugin, gRPC and what framework may; neither versioning nor the
// server. Start reading at suite.go, the run of a test; rule.go says what a rule is and *_rules.go hold them,
// target.go and process.go run the plugin, samples.go has the items that actions are asked about.
package conformance
