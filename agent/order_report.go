package agent

import (
	"context"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/internal/flood"
)

// reportBox keeps reports until they are taken away: at most as many as it was
// made for, the newest.
type reportBox struct {
	most   int
	filled chan struct{} // holds a token while there may be something

	mu      sync.Mutex
	reports []psg.Report
	dropped int
}

func newReportBox(most int) reportBox {
	return reportBox{most: most, filled: make(chan struct{}, 1)}
}

func (b *reportBox) put(r psg.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.reports) == b.most {
		b.reports = append(b.reports[:0], b.reports[1:]...)
		b.dropped++
	}
	b.reports = append(b.reports, r)
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// first is the oldest report, which stays until it is taken.
func (b *reportBox) first() (r psg.Report, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.reports) == 0 {
		return r, false
	}
	return b.reports[0], true
}

// taken drops the oldest report, unless it was dropped for room meanwhile.
func (b *reportBox) taken(r psg.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.reports) > 0 && b.reports[0] == r {
		b.reports = append(b.reports[:0], b.reports[1:]...)
	}
}

// tell logs a report, unless they come as a flood, and has it sent. The mandate's
// are not told when all is well: they come every few seconds.
func (o *Orders) tell(r psg.Report) {
	if r.Kind == psg.Entrust && r.State == psg.ReportDone {
		return
	}
	if left, ok := o.logged.take(time.Now()); ok {
		o.config.Log.Info("order", "kind", r.Kind, "alloc", r.Alloc, "state", r.State, "reason", r.Reason,
			"epoch", r.Epoch, "sequence", r.Sequence, "unasked", r.Unasked, "until", r.Until, "not_logged_before", left)
	}
	o.reports.put(r)
}

// logLimit is a flood.Limit for several goroutines.
type logLimit struct {
	mu    sync.Mutex
	limit flood.Limit
}

func (l *logLimit) take(now time.Time) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit.Take(now)
}

// sendReports hands reports to the Reporter until ctx ends, in order.
func (o *Orders) sendReports(ctx context.Context) {
	retry := time.Duration(0)
	for {
		report, ok := o.reports.first()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-o.reports.filled:
				continue
			}
		}
		if err := o.report(ctx, report); err == nil {
			o.reports.taken(report)
			retry = 0
			continue
		} else if retry == 0 {
			o.config.Log.Warn("reports are not sent, keeping the newest", "error", err, "keep", o.config.Reports)
		}
		retry = min(max(2*retry, minRetry), maxRetry)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

func (o *Orders) report(ctx context.Context, r psg.Report) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return o.reporter.Report(ctx, r)
}
