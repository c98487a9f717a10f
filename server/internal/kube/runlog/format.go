package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// line is one line of a log before it is formatted.
type line struct {
	time  time.Time
	level hclog.Level
	name  string
	msg   string
	args  []any
}

// formatText formats a line as logrus does, and thus as in Velero's log objects:
//
//	time="2026-01-02T03:04:05Z" level=info msg="backed up 3 items" backup=velero/nightly
func formatText(l line) []byte {
	var b bytes.Buffer
	pair := func(key, value string) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(key + "=" + quote(value))
	}
	pair("time", l.time.UTC().Format(time.RFC3339))
	pair("level", levelName(l.level))
	pair("msg", l.msg)
	fields := l.fields()
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		pair(key, fields[key])
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// formatJSON formats a line as a JSON object, as Velero does with --log-format json.
func formatJSON(l line) []byte {
	object := l.fields()
	if text, ok := object["error"]; ok {
		delete(object, "error")
		object["error.message"] = text
	}
	object["time"] = l.time.UTC().Format(time.RFC3339)
	object["level"] = levelName(l.level)
	object["msg"] = l.msg
	out, err := json.Marshal(object)
	if err != nil { // a map of strings always encodes
		return formatText(l)
	}
	return append(out, '\n')
}

// fields returns the key-value pairs of a line as text. Keys that the line itself uses get a prefix.
func (l line) fields() map[string]string {
	out := make(map[string]string, len(l.args)/2+1)
	if l.name != "" {
		out["logger"] = l.name
	}
	for i := 0; i < len(l.args); i += 2 {
		key := keyText(l.args[i])
		if i+1 == len(l.args) {
			out["extra"] = key
			break
		}
		switch key {
		case "time", "level", "msg":
			key = "fields." + key
		default:
		}
		out[key] = text(l.args[i+1])
	}
	return out
}

// keyText returns a key without characters that would make "key=value" ambiguous.
func keyText(key any) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '=' || r == '"' || r == 0x7f {
			return '_'
		}
		return r
	}, text(key))
}

// text returns the value of a field as text.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case error:
		return v.Error()
	case hclog.Format:
		if len(v) == 0 {
			return ""
		}
		return fmt.Sprintf(text(v[0]), v[1:]...)
	case fmt.Stringer:
		return v.String()
	default:
		return fmt.Sprintf("%v", v)
	}
}

// levelName returns logrus' name of a level.
func levelName(level hclog.Level) string {
	if level == hclog.Warn {
		return "warning"
	}
	return level.String()
}

// quote quotes a value, unless it contains only characters that logrus leaves unquoted.
func quote(value string) string { return string(appendQuoted(nil, value)) }

// appendQuoted appends a value as quote returns it.
func appendQuoted(to []byte, value string) []byte {
	for i := range len(value) {
		c := value[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._/@^+", c) >= 0
		if !plain {
			return strconv.AppendQuote(to, value)
		}
	}
	return append(to, value...)
}

// ownFields returns fields as they are in a line after others.
func ownFields(isJSON bool, fields map[string]string) []byte {
	var own []byte
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !isJSON {
			own = append(append(append(own, ' '), key...), '=')
			own = appendQuoted(own, fields[key])
			continue
		}
		quoted, err := json.Marshal(fields[key])
		if err != nil { // a string always encodes
			continue
		}
		own = append(append(append(own, `,"`...), key...), `":`...)
		own = append(own, quoted...)
	}
	return own
}

// writer logs its input.
type writer struct {
	logger *logger
	level  hclog.Level
}

// Write logs p as one line.
func (w writer) Write(p []byte) (int, error) {
	w.logger.Log(w.level, strings.TrimRight(string(p), "\r\n"))
	return len(p), nil
}
