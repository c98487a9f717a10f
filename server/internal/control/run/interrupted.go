package run

import (
	"errors"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/versioning"
)

// errCut marks the failure of a body of which a part was read.
var errCut = errors.New("the object was cut off")

// isInterrupted reports whether a call failed because the object store could not be reached, was silent, or could not
// do its work at that moment. How often a plugin or its SDK has tried says nothing about the object store.
func isInterrupted(err error) bool {
	if _, silent := errors.AsType[*calls.OverdueError](err); silent {
		return true
	}
	if errors.Is(err, versioning.ErrUnavailable) || errors.Is(err, errCut) {
		return true
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(interruptions(), func(known string) bool { return strings.Contains(text, known) })
}

// interruptions are parts of messages, in lower case. Plugins made for Velero pass on the message of an error only.
func interruptions() []string {
	return []string{
		// of the network, from Go's library
		"connection refused", "connection reset", "broken pipe", "unexpected eof", "i/o timeout", "no such host",
		"network is unreachable", "no route to host", "tls handshake timeout", "server closed idle connection",
		"use of closed network connection", "timeout awaiting response headers", "client.timeout exceeded", "server misbehaving",
		// of SDKs that have given up by rules of their own
		"retry quota exceeded", "exceeded maximum number of attempts", "request send failed", "deserialization failed",
		// answers of object stores
		"slowdown", "serviceunavailable", "service unavailable", "internalerror", "requesttimeout", "server is busy",
		"serverbusy", "bad gateway", "gateway timeout", "statuscode: 429", "statuscode: 500", "statuscode: 502",
		"statuscode: 503", "statuscode: 504", "error 429", "error 500", "error 502", "error 503", "error 504",
	}
}
