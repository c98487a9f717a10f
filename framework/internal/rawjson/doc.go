// Package rawjson reads and writes JSON as it stands, without decoding it, fast enough for every item of a backup to go through
// it. It imports nothing of ours. Start reading at members.go.
package rawjson
