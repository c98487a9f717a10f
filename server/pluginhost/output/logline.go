package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// logLine is one line of a plugin's stderr, understood as far as possible.
type Line struct {
	Level      hclog.Level
	Message    string
	Args       []any // alternating keys and values
	structured bool  // it was a JSON object with message and level
}

// String is the line as people read it: a structured one without what only a machine wants.
func (l Line) String() string {
	if !l.structured {
		return l.Message
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] %s", strings.ToUpper(l.Level.String()), l.Message)
	for i := 0; i < len(l.Args); i += 2 {
		key := fmt.Sprint(l.Args[i])
		if !strings.HasPrefix(key, "@") && key != "logSource" {
			fmt.Fprintf(&b, " %s=%v", key, l.Args[i+1])
		}
	}
	return b.String()
}

// startsCrash tells the first line of what the Go runtime writes when it gives up.
func StartsCrash(line string) bool {
	for _, start := range []string{
		"panic: ", "fatal error: ", "runtime: out of memory: ", "runtime/cgo: ", "SIGABRT: ", "SIGBUS: ", "SIGQUIT: ", "SIGSEGV: ",
	} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// parseLogLine reads a line as the plugin library of Velero (logrus with "@message" and "@level") or hclog writes
// it. Whatever is not such an object is a message of its own: at the level its prefix names, else debug.
// It is our own reader, because go-plugin's panics on a "@message" that is no string.
func parseLogLine(line []byte) Line {
	if line[0] == '{' {
		if parsed, ok := parseJSONLine(line); ok {
			return parsed
		}
	}
	text := string(bytes.ToValidUTF8(line, []byte("\uFFFD")))
	return Line{Level: levelOfPrefix(text), Message: text}
}

func parseJSONLine(line []byte) (Line, bool) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil || decoder.More() {
		return Line{}, false
	}
	message, ok := takeString(fields, "@message", "msg")
	if !ok {
		return Line{}, false
	}
	name, ok := takeString(fields, "@level", "level")
	if !ok {
		return Line{}, false
	}
	level, ok := levelNamed(name)
	if !ok {
		return Line{}, false
	}
	// The host's log has a time and a level of its own.
	for _, key := range []string{"level", "time", "timestamp", "@timestamp"} {
		delete(fields, key)
	}
	parsed := Line{Level: level, Message: message, structured: true}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		parsed.Args = append(parsed.Args, key, fields[key])
	}
	return parsed, true
}

// takeString removes the first of the keys that is there and gives its value, which has to be a string.
func takeString(fields map[string]any, keys ...string) (string, bool) {
	for _, key := range keys {
		if value, there := fields[key]; there {
			text, ok := value.(string)
			delete(fields, key)
			return text, ok
		}
	}
	return "", false
}

// levelNamed knows the names that logrus and hclog use.
func levelNamed(name string) (hclog.Level, bool) {
	switch strings.ToLower(name) {
	case "trace":
		return hclog.Trace, true
	case "debug":
		return hclog.Debug, true
	case "info":
		return hclog.Info, true
	case "warn", "warning":
		return hclog.Warn, true
	case "error", "fatal", "panic":
		return hclog.Error, true
	}
	return hclog.NoLevel, false
}

func levelOfPrefix(text string) hclog.Level {
	if StartsCrash(text) {
		return hclog.Error
	}
	if inner, found := strings.CutPrefix(text, "["); found {
		if name, _, closed := strings.Cut(inner, "]"); closed {
			if level, ok := levelNamed(name); ok {
				return level
			}
		}
	}
	return hclog.Debug
}
