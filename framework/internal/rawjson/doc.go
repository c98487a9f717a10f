// Package rawjson finds parts of raw JSON without decoding it, fast enough for every item of a backup. It imports only
// the standard library. Start at members.go.
package rawjson
