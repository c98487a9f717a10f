package glue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// NewSlog returns a log/slog logger that writes to an hclog.Logger.
func NewSlog(to hclog.Logger) *slog.Logger { return slog.New(&slogHandler{to: to}) }

// slogHandler writes records of log/slog as lines of an hclog.Logger. Groups become prefixes of keys.
type slogHandler struct {
	to     hclog.Logger
	prefix string // the open groups, each followed by a dot
	args   []any
}

// Enabled implements slog.Handler.
func (h *slogHandler) Enabled(_ context.Context, level slog.Level) bool {
	return hclogLevel(level) >= h.to.GetLevel()
}

// Handle implements slog.Handler.
func (h *slogHandler) Handle(_ context.Context, record slog.Record) error {
	args := slices.Clip(h.args)
	record.Attrs(func(attr slog.Attr) bool {
		args = appendAttr(args, h.prefix, attr)
		return true
	})
	if located, ok := h.to.(sourceLogger); ok {
		frame, _ := runtime.CallersFrames([]uintptr{record.PC}).Next()
		located.writeAt(hclogLevel(record.Level), record.Message, args, frame.File, frame.Line)
		return nil
	}
	h.to.Log(hclogLevel(record.Level), record.Message, args...)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.args = slices.Clip(h.args)
	for _, attr := range attrs {
		with.args = appendAttr(with.args, h.prefix, attr)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *slogHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.prefix = h.prefix + name + "."
	return &with
}

func appendAttr(args []any, prefix string, attr slog.Attr) []any {
	value := attr.Value.Resolve()
	switch {
	case attr.Equal(slog.Attr{}):
		return args
	case value.Kind() != slog.KindGroup:
		if value.Kind() == slog.KindDuration || value.Kind() == slog.KindTime {
			return append(args, prefix+attr.Key, fmt.Sprint(value.Any()))
		}
		return append(args, prefix+attr.Key, value.Any())
	case attr.Key != "":
		prefix += attr.Key + "."
	}
	for _, member := range value.Group() {
		args = appendAttr(args, prefix, member)
	}
	return args
}

func hclogLevel(level slog.Level) hclog.Level {
	switch {
	case level < slog.LevelDebug:
		return hclog.Trace
	case level < slog.LevelInfo:
		return hclog.Debug
	case level < slog.LevelWarn:
		return hclog.Info
	case level < slog.LevelError:
		return hclog.Warn
	default:
		return hclog.Error
	}
}
