// Package volumesnapshotter is the kind VolumeSnapshotter as the server uses it:
//
//   - hub.go: the hub, in the newest shape of the kind
//   - v1.go: lifts version 1 of the wire to it
//   - validate.go: the rules that a reply must keep
//
// It imports the protos, framework and versioning, never the server. Start reading at hub.go.
package volumesnapshotter
