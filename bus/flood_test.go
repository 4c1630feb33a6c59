package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/psgrid/psg"
)

// logged is what was logged, for several goroutines.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

// TestWatch_LogsAFloodNowAndThen: one client that publishes nonsense, or samples
// that make none, must not fill the disk with words about it.
func TestWatch_LogsAFloodNowAndThen(t *testing.T) {
	bus := open(t, t.TempDir())
	var log logged
	bus.config.Log = slog.New(slog.NewTextHandler(&log, nil))
	const flood = 200
	taken := make(chan struct{}, 10*flood)
	heard(t, func(ctx context.Context, take func(psg.Sample)) error {
		return bus.WatchTelemetry(ctx, func(sample psg.Sample) error {
			if sample.Node == "end" {
				take(sample)
				return nil
			}
			taken <- struct{}{}
			return errors.New("it makes no sense")
		})
	}, func() {
		if len(taken) < flood {
			for range flood / 10 {
				if err := errors.Join(bus.PublishTelemetry(t.Context(), sampleOf("n1")), bus.conn.Publish(TelemetrySubject("n2"), []byte{255})); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
		if err := bus.PublishTelemetry(t.Context(), sampleOf("end")); err != nil {
			t.Fatal(err)
		}
	})
	lines := log.lines()
	if len(lines) > 30 || !strings.Contains(lines[0], "message ignored") {
		t.Errorf("%d lines of a flood of %d, the first %q", len(lines), 2*flood, lines[0])
	}
}
