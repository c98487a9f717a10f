package app

import (
	"github.com/go-logr/logr"
	"github.com/hashicorp/go-hclog"
)

// NewLogr lets controller-runtime and client-go write to an hclog.Logger. Their verbose lines
// become debug lines.
func NewLogr(log hclog.Logger) logr.Logger {
	return logr.New(logSink{log})
}

type logSink struct{ log hclog.Logger }

var _ logr.LogSink = logSink{}

func (s logSink) Init(logr.RuntimeInfo) {}

// Enabled reports whether lines of this verbosity are written.
func (s logSink) Enabled(level int) bool {
	return s.log.GetLevel() <= verbosity(level)
}

func (s logSink) Info(level int, msg string, keysAndValues ...any) {
	s.log.Log(verbosity(level), msg, keysAndValues...)
}

func (s logSink) Error(err error, msg string, keysAndValues ...any) {
	s.log.With("error", err).Error(msg, keysAndValues...)
}

func (s logSink) WithValues(keysAndValues ...any) logr.LogSink {
	return logSink{s.log.With(keysAndValues...)}
}

func (s logSink) WithName(name string) logr.LogSink { return logSink{s.log.Named(name)} }

// verbosity is the level of lines of a verbosity. What the libraries say of their own accord is
// for those who debug.
func verbosity(level int) hclog.Level {
	if level > 1 {
		return hclog.Trace
	}
	return hclog.Debug
}
