package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/psgrid/psg"
)

// terminal is what w writes to, if that is a terminal.
func terminal(w io.Writer) (*os.File, bool) {
	file, ok := w.(*os.File)
	if !ok {
		return nil, false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return file, err == nil
}

const (
	liveEvery   = time.Second
	livePoints  = 60  // in a line of bars
	liveMetrics = 200 // whose history is kept: of all nodes together
)

// The terminal's own words: go to the corner, clear to the end of the line, of
// the screen, hide and show the cursor.
const (
	toCorner   = "\x1b[H"
	clearLine  = "\x1b[K"
	clearRest  = "\x1b[J"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
)

// watchNodes shows nodes anew each second until q is pressed or ctx ends.
func watchNodes(ctx context.Context, screen, keys *os.File, read func() ([]psg.Node, error)) error {
	restore, err := withoutLines(keys)
	if err != nil {
		return fmt.Errorf("-live: %w", err)
	}
	defer restore()
	fmt.Fprint(screen, hideCursor+toCorner+clearRest)
	defer fmt.Fprint(screen, "\n"+showCursor)
	l := live{past: map[string][]float64{}}
	for next := time.Now(); ctx.Err() == nil; {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(liveEvery)
			nodes, err := read()
			if ctx.Err() != nil {
				break
			}
			if _, err := io.WriteString(screen, fit(screen, l.frame(nodes, err, now))); err != nil {
				return err
			}
		}
		if key(keys) == 'q' {
			break
		}
	}
	return nil
}

// withoutLines has a terminal give each key at once, without showing it, and a
// read return after a tenth of a second; signals stay as they are.
func withoutLines(keys *os.File) (restore func(), err error) {
	fd := int(keys.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("standard input is no terminal: %w", err)
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 0, 1
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &now); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil // the terminal has gone: nothing to restore
}

// key waits for a key for a tenth of a second; 0 for none. A terminal that has
// gone counts as q.
func key(keys *os.File) byte {
	var one [1]byte
	switch n, err := unix.Read(int(keys.Fd()), one[:]); {
	case err == unix.EINTR, err == nil && n == 0:
		return 0
	case err != nil:
		return 'q'
	}
	return one[0]
}

// fit cuts a frame to the screen, and has it replace what stands there.
func fit(screen *os.File, frame string) string {
	lines := strings.Split(strings.TrimRight(readable(frame), "\n"), "\n")
	rows, columns := 24, 80
	if size, err := unix.IoctlGetWinsize(int(screen.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
		rows, columns = int(size.Row), int(size.Col)
	}
	lines = lines[:min(len(lines), rows-1)]
	for i, line := range lines {
		if runes := []rune(line); len(runes) > columns {
			lines[i] = string(runes[:columns])
		}
	}
	return toCorner + strings.Join(lines, clearLine+"\n") + clearLine + "\n" + clearRest
}

// live is what was shown so far.
type live struct {
	past map[string][]float64 // by node and metric: the last means, oldest first
}

// frame is the screen's text.
func (l *live) frame(nodes []psg.Node, failed error, now time.Time) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	p := &printer{w: table}
	switch {
	case failed != nil:
		p.line("%s\t%v", now.Format(time.TimeOnly), failed)
	case len(nodes) == 1:
		l.one(p, nodes[0], now)
	default:
		p.line("%s\t%d nodes, q to leave", now.Format(time.TimeOnly), len(nodes))
		p.line("\nNode\tCPU %%\t\tUsed MiB\tAgent")
		for _, n := range nodes {
			p.line("%s\t%s\t%s\t%s\t%s", word(n.Name), mean(n.Telemetry, "cpu_percent"), l.bars(n, "cpu_percent"),
				mean(n.Telemetry, "memory_used_mb"), agentState(n.Telemetry))
		}
	}
	_ = table.Flush() // into memory
	return out.String()
}

func (l *live) one(p *printer, n psg.Node, now time.Time) {
	p.line("%s\t%s\tagent %s, measured %s, q to leave", now.Format(time.TimeOnly), word(n.Name), agentState(n.Telemetry), measured(n.Telemetry))
	if n.Projection != nil {
		p.line("\tnext 5 m\texpected %s", n.Projection.Mean)
		p.line("\t\tat most %s", n.Projection.Upper)
	}
	if n.Telemetry == nil {
		return
	}
	p.line("\nMetric\tMean of 10 s\tThe last minute")
	for _, name := range sortedKeys(n.Telemetry.Metrics) {
		p.line("%s\t%.2f\t%s", word(name), n.Telemetry.Metrics[name].Mean, l.bars(n, name))
	}
	if len(n.Telemetry.Allocs) > 0 {
		p.line("\nAllocation\tCPU %% of one\tMemory MiB")
	}
	for _, a := range n.Telemetry.Allocs {
		p.line("%s\t%.1f\t%.0f", word(a.Alloc), a.Metrics["cpu_percent"].Last, a.Metrics["memory_mb"].Last)
	}
}

// bars takes in a metric's mean and draws those of the last minute.
func (l *live) bars(n psg.Node, metric string) string {
	if n.Telemetry == nil {
		return ""
	}
	stats, ok := n.Telemetry.Metrics[metric]
	key := string(n.ID) + "\x00" + metric
	past := l.past[key]
	if !ok || past == nil && len(l.past) >= liveMetrics {
		return ""
	}
	if past = append(past, stats.Mean); len(past) > livePoints {
		past = past[1:]
	}
	l.past[key] = past
	most := 0.0
	if strings.HasSuffix(metric, "_percent") {
		most = 100
	}
	return bars(past, most)
}

// bars draws each value as a bar of eight heights, from 0 to the largest or to
// most, if that is more.
func bars(values []float64, most float64) string {
	heights := []rune("▁▂▃▄▅▆▇█")
	for _, v := range values {
		most = max(most, v)
	}
	out := make([]rune, len(values))
	for i, v := range values {
		height := 0
		if most > 0 {
			height = int(max(v, 0) / most * float64(len(heights)))
		}
		out[i] = heights[min(height, len(heights)-1)]
	}
	return string(out)
}
