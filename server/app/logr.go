package app

import (
	"github.com/go-logr/logr"
	"github.com/hashicorp/go-hclog"
)

// NewLogr returns a logr.Logger that writes to log, for controller-runtime and client-go. Their information is logged
// at debug level.
func NewLogr(log hclog.Logger) logr.Logger {
	return logr.New(logSink{log})
}

type logSink struct{ log hclog.Logger }

var _ logr.LogSink = logSink{}

func (s logSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s logSink) Enabled(level int) bool {
	return s.log.GetLevel() <= hclogLevel(level)
}

func (s logSink) Info(level int, msg string, keysAndValues ...any) {
	s.log.Log(hclogLevel(level), msg, keysAndValues...)
}

func (s logSink) Error(err error, msg string, keysAndValues ...any) {
	s.log.With("error", err).Error(msg, keysAndValues...)
}

func (s logSink) WithValues(keysAndValues ...any) logr.LogSink {
	return logSink{s.log.With(keysAndValues...)}
}

func (s logSink) WithName(name string) logr.LogSink { return logSink{s.log.Named(name)} }

// hclogLevel returns the level at which messages of a verbosity are logged. Messages of libraries help only to debug.
func hclogLevel(level int) hclog.Level {
	if level > 1 {
		return hclog.Trace
	}
	return hclog.Debug
}
