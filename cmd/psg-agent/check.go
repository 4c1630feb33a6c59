package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/psgrid/psg/agent"
)

// checkPause is long enough for shares of CPU time to mean something.
const checkPause = 500 * time.Millisecond

// check measures twice and prints every metric, or why there is none.
func check(ctx context.Context, proc string, stdout io.Writer) error {
	c := agent.NewCollector(agent.Config{Proc: proc, Interval: checkPause, Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	c.Collect(time.Now())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(checkPause):
	}
	c.Collect(time.Now())

	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "Source\tMetric\tValue")
	for _, r := range c.Readings() {
		for _, metric := range r.Metrics {
			fmt.Fprintf(table, "%s\t%s\t%s\n", r.Path, metric, value(c, metric, r.Err))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, needed := range []string{"cpu_percent", "memory_available_mb"} {
		if _, ok := c.Last(needed); !ok {
			return errors.New(needed + " cannot be measured on this node")
		}
	}
	return nil
}

func value(c *agent.Collector, metric string, failed error) string {
	if failed != nil {
		return "cannot be read: " + failed.Error()
	}
	if v, ok := c.Last(metric); ok {
		return fmt.Sprintf("%.2f", v)
	}
	return "no change yet"
}
