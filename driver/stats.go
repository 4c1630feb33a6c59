package driver

import (
	"context"
	"time"

	"github.com/psgrid/psg/driver/executor"
)

// minStatsInterval bounds how often a task is measured.
const minStatsInterval = 100 * time.Millisecond

// Stats calls send with what a task uses, first at once and then at each
// interval, until ctx ends, the task ends or send fails. A task without a
// process uses nothing.
func (d *Driver) Stats(ctx context.Context, id string, interval time.Duration, send func(Usage) error) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	config, err := d.settings()
	if err != nil {
		return err
	}
	ctx, cancel := d.joined(ctx)
	defer cancel()
	var last executor.Usage
	for {
		now := executor.Usage{At: time.Now()}
		if p, err := t.running(); err == nil {
			now = p.Usage()
		}
		if err := send(usageSince(last, now, config.CoreMHz)); err != nil {
			return err
		}
		last = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.over.Done():
			return nil
		case <-time.After(max(interval, minStatsInterval)):
		}
	}
}

// usageSince turns CPU time into a share of one core; without an earlier
// reading it is zero.
func usageSince(last, now executor.Usage, coreMHz float64) Usage {
	u := Usage{Usage: now}
	elapsed := now.At.Sub(last.At)
	if last.At.IsZero() || elapsed <= 0 {
		return u
	}
	percent := func(then, now time.Duration) float64 {
		return max(0, 100*float64(now-then)/float64(elapsed)) // less when a child's time went with it
	}
	u.UserPercent = percent(last.UserCPU, now.UserCPU)
	u.SystemPercent = percent(last.SystemCPU, now.SystemCPU)
	u.MHz = (u.UserPercent + u.SystemPercent) / 100 * coreMHz
	return u
}
