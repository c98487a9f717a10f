package runlog

import (
	"io"
	"log"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// logger is the hclog face of a Log: a name, a level and the fields of every line.
type logger struct {
	log   *Log
	name  string
	level hclog.Level
	args  []any
}

var _ hclog.Logger = (*logger)(nil)

// Log writes a line when level is at least the logger's own.
func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	if !l.enabled(level) {
		return
	}
	l.log.write(l.name, level, msg, slices.Concat(l.args, args))
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

// With adds fields to every line.
func (l *logger) With(args ...any) hclog.Logger {
	out := *l
	out.args = slices.Concat(l.args, args)
	return &out
}

// Named appends to the name.
func (l *logger) Named(name string) hclog.Logger {
	if l.name != "" {
		name = l.name + "." + name
	}
	return l.ResetNamed(name)
}

// ResetNamed replaces the name.
func (l *logger) ResetNamed(name string) hclog.Logger {
	out := *l
	out.name = name
	return &out
}

// StandardLogger adapts the logger to the standard library.
func (l *logger) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

// StandardWriter makes one line of each write, at the level forced by opts, or else at info.
func (l *logger) StandardWriter(opts *hclog.StandardLoggerOptions) io.Writer {
	level := hclog.Info
	if opts != nil && opts.ForceLevel != hclog.NoLevel {
		level = opts.ForceLevel
	}
	return writer{logger: l, level: level}
}
