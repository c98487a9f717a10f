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

// formatText renders a line as logrus text, which Velero's log objects consist of:
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

// formatJSON renders a line as one JSON object, as Velero does with --log-format json.
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

// fields are the key, value pairs of a line as text. Keys that the line itself uses are moved out
// of the way.
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

// keyText makes a key that a reader of "key=value" can split off again.
func keyText(key any) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '=' || r == '"' || r == 0x7f {
			return '_'
		}
		return r
	}, text(key))
}

// text renders a value of a field.
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

// levelName is logrus' name of a level.
func levelName(level hclog.Level) string {
	if level == hclog.Warn {
		return "warning"
	}
	return level.String()
}

// quote puts a value into quotation marks when it holds anything but the plain characters that
// logrus leaves bare.
func quote(value string) string {
	bare := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._/@^+", r)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return !bare(r) }) {
		return strconv.Quote(value)
	}
	return value
}

// writer is a logger for those who write text.
type writer struct {
	logger *logger
	level  hclog.Level
}

// Write makes one line of p.
func (w writer) Write(p []byte) (int, error) {
	w.logger.Log(w.level, strings.TrimRight(string(p), "\r\n"))
	return len(p), nil
}
