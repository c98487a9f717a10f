// Package rawjson finds parts of raw JSON without decoding it, fast enough for every item of a backup. It reads JSON
// with jsontext, which comes to the standard library as encoding/json/jsontext, and imports nothing else beside the
// standard library. Start at members.go.
//
// Two parts are written by hand. Backward finds the last members of a large object without reading the first ones, as
// no reader of tokens can; AppendText quotes plain text three times as fast as jsontext.
package rawjson
