package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Line is one line of the output of a plugin, parsed as far as possible.
type Line struct {
	Level      hclog.Level
	Message    string
	Args       []any  // alternating keys and values
	Run        string // the run that made the call which wrote the line; empty if the line does not name one
	structured bool   // a JSON object with message and level
}

// String returns the line for people: a structured one without the fields that only a machine needs.
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

// StartsCrash reports whether the line is the first one that the Go runtime writes when it crashes.
func StartsCrash(line string) bool {
	for _, start := range []string{
		"panic: ", "fatal error: ", "runtime: out of memory: ", "runtime/cgo: ", "SIGABRT: ", "SIGBUS: ", "SIGQUIT: ",
		"SIGSEGV: ",
	} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// parseLogLine parses a line that the plugin library of Velero (logrus with "@message" and "@level") or hclog wrote.
// Any other line is a message of its own: at the level that its prefix names, otherwise debug. go-plugin has such a
// parser, but it panics on a "@message" that is not a string.
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
	// The server's log adds its own time and level.
	for _, key := range []string{"level", "time", "timestamp", "@timestamp"} {
		delete(fields, key)
	}
	run, _ := takeString(fields, hostapi.RunKey)
	parsed := Line{Level: level, Message: message, Run: run, structured: true}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		parsed.Args = append(parsed.Args, key, fields[key])
	}
	return parsed, true
}

// takeString removes the first of the keys that exists and returns its value, if that is a string.
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

// levelNamed returns the level for a name that logrus or hclog uses.
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
