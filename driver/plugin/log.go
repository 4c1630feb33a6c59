package plugin

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// NewLogger writes the JSON lines that Nomad reads from a plugin's standard
// error and puts into its own log, under the plugin's name.
func NewLogger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: Name, Level: hclog.Trace, JSONFormat: true})
}

// logHandler hands slog records to hclog. Groups prefix the keys.
type logHandler struct {
	out    hclog.Logger
	prefix string
}

func (h *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return hclogLevel(level) >= h.out.GetLevel()
}

// Handle writes one record.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	pairs := make([]any, 0, 2*r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		pairs = append(pairs, h.prefix+a.Key, a.Value.Resolve().Any())
		return true
	})
	h.out.Log(hclogLevel(r.Level), r.Message, pairs...)
	return nil
}

// WithAttrs returns a handler that adds attrs to each record.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	pairs := make([]any, 0, 2*len(attrs))
	for _, a := range attrs {
		pairs = append(pairs, h.prefix+a.Key, a.Value.Resolve().Any())
	}
	return &logHandler{out: h.out.With(pairs...), prefix: h.prefix}
}

// WithGroup returns a handler that puts name before the keys that follow.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{out: h.out, prefix: h.prefix + name + "."}
}

func hclogLevel(level slog.Level) hclog.Level {
	switch {
	case level < slog.LevelInfo:
		return hclog.Debug
	case level < slog.LevelWarn:
		return hclog.Info
	case level < slog.LevelError:
		return hclog.Warn
	}
	return hclog.Error
}
