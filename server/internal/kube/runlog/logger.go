package runlog

import (
	"io"
	"log"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// logger is an hclog.Logger that writes to a Log or a Late.
type logger struct {
	to    lineWriter
	name  string
	level hclog.Level
	args  []any
}

type lineWriter interface {
	write(name string, level hclog.Level, msg string, args []any)
}

var _ hclog.Logger = (*logger)(nil)

// Log writes a line if level is at least the logger's level.
func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	if !l.enabled(level) {
		return
	}
	l.to.write(l.name, level, msg, slices.Concat(l.args, args))
}

func (l *logger) enabled(level hclog.Level) bool {
	return l.level != hclog.Off && level >= l.level
}

func (l *logger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *logger) IsTrace() bool { return l.enabled(hclog.Trace) }
func (l *logger) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l *logger) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l *logger) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l *logger) IsError() bool { return l.enabled(hclog.Error) }

func (l *logger) ImpliedArgs() []any         { return l.args }
func (l *logger) Name() string               { return l.name }
func (l *logger) SetLevel(level hclog.Level) { l.level = level }
func (l *logger) GetLevel() hclog.Level      { return l.level }

// With returns a logger that adds fields to every line.
func (l *logger) With(args ...any) hclog.Logger {
	out := *l
	out.args = slices.Concat(l.args, args)
	return &out
}

// Named returns a logger with the name appended to this logger's name.
func (l *logger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

// ResetNamed returns a logger with the given name.
func (l *logger) ResetNamed(name string) hclog.Logger {
	out := *l
	out.name = name
	return &out
}

// StandardLogger returns a logger of the standard library that writes to this logger.
func (l *logger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

// StandardWriter returns a writer that logs each write as one line, at the level that opts forces or at info.
func (l *logger) StandardWriter(opts *hclog.StandardLoggerOptions) io.Writer {
	level := hclog.Info
	if opts != nil && opts.ForceLevel != hclog.NoLevel {
		level = opts.ForceLevel
	}
	return writer{logger: l, level: level}
}
