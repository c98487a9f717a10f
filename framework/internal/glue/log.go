package glue

import (
	"fmt"
	"io"
	"path"
	"runtime"

	"github.com/hashicorp/go-hclog"
)

// NewLogger returns the logger of a plugin process. Each line is a JSON object with @message, @level, logSource
// (file:line) and @logSourceSetBy, as go-plugin and Velero's host expect. Lines have no time; the host adds it.
func NewLogger(output io.Writer, level hclog.Level) hclog.Logger {
	return sourceLogger{hclog.New(&hclog.LoggerOptions{
		Output:      output,
		Level:       level,
		JSONFormat:  true,
		DisableTime: true,
	})}
}

// sourceLogger adds the source position of the call to each line, and the source position of an error among the values.
type sourceLogger struct {
	hclog.Logger
}

func (l sourceLogger) write(level hclog.Level, msg string, args []any) {
	_, file, line, _ := runtime.Caller(2)
	l.writeAt(level, msg, args, file, line)
}

// writeAt writes a line with its source position; file is empty if that is unknown.
func (l sourceLogger) writeAt(level hclog.Level, msg string, args []any, file string, line int) {
	if level < l.GetLevel() {
		return
	}
	if len(args)%2 == 1 { // a value without a key, handled like in hclog
		args = append(args[:len(args)-1:len(args)-1], hclog.MissingKey, args[len(args)-1])
	}
	extra := []any{"@logSourceSetBy", "plugin"}
	if file != "" {
		extra = append(extra, "logSource", location(file, line))
	}
	for i := 1; i < len(args); i += 2 {
		err, ok := args[i].(error)
		if !ok {
			continue
		}
		if made := frames(err); len(made) > 0 {
			extra = append(extra,
				"error.file", location(made[0].GetFile(), int(made[0].GetLine())),
				"error.function", made[0].GetFunction())
			break
		}
	}
	l.Logger.Log(level, msg, append(extra, args...)...)
}

// location returns the last folder, the file and the line, without the rest of the path on the build machine.
func location(file string, line int) string {
	return fmt.Sprintf("%s:%d", path.Join(path.Base(path.Dir(file)), path.Base(file)), line)
}

func (l sourceLogger) Log(level hclog.Level, msg string, args ...any) { l.write(level, msg, args) }
func (l sourceLogger) Trace(msg string, args ...any)                  { l.write(hclog.Trace, msg, args) }
func (l sourceLogger) Debug(msg string, args ...any)                  { l.write(hclog.Debug, msg, args) }
func (l sourceLogger) Info(msg string, args ...any)                   { l.write(hclog.Info, msg, args) }
func (l sourceLogger) Warn(msg string, args ...any)                   { l.write(hclog.Warn, msg, args) }
func (l sourceLogger) Error(msg string, args ...any)                  { l.write(hclog.Error, msg, args) }

func (l sourceLogger) With(args ...any) hclog.Logger { return sourceLogger{l.Logger.With(args...)} }
func (l sourceLogger) Named(name string) hclog.Logger {
	return sourceLogger{l.Logger.Named(name)}
}
func (l sourceLogger) ResetNamed(name string) hclog.Logger {
	return sourceLogger{l.Logger.ResetNamed(name)}
}
