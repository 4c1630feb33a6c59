package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/psgrid/psg/agent"
)

// checkPause is long enough for shares of CPU time to mean something. What is
// measured least often has its turns after one pause and after two.
const (
	checkTimes = 3
	checkPause = 500 * time.Millisecond
)

// check measures for a second and prints every metric, or why there is none, the
// control groups and what each workload in them uses.
func check(ctx context.Context, config agent.Config, stdout io.Writer) error {
	config.Interval, config.SlowFiles = checkPause, checkPause
	config.Log = slog.New(slog.DiscardHandler)
	c := agent.NewCollector(config, nil)
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { c.RunSources(ctx) })
	for i := range checkTimes {
		c.Collect(time.Now())
		if i == checkTimes-1 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(checkPause):
		}
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	writeMetrics(table, c)
	writeDevices(table, c)
	writeUses(table, c)
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

func writeMetrics(table io.Writer, c *agent.Collector) {
	fmt.Fprintln(table, "Source\tMetric\tValue")
	for _, r := range c.Readings() {
		if len(r.Metrics) == 0 && r.Err != nil {
			fmt.Fprintf(table, "%s\tall\tcannot be read: %v\n", r.Path, r.Err)
		}
		for _, metric := range r.Metrics {
			fmt.Fprintf(table, "%s\t%s\t%s\n", r.Path, metric, value(c, metric, r.Err))
		}
	}
}

func value(c *agent.Collector, metric string, failed error) string {
	if failed != nil {
		return "cannot be read: " + failed.Error()
	}
	if v, ok := c.Last(metric); ok {
		return fmt.Sprintf("%.2f", v)
	}
	return "unknown"
}

func writeDevices(table io.Writer, c *agent.Collector) {
	devices, _ := c.Devices()
	if len(devices) == 0 {
		return
	}
	fmt.Fprintln(table, "\nDevice\tModel\tMemory MiB\tProfiles\tNUMA node\tLink\tHealth")
	for _, d := range devices {
		health := "well"
		if !d.Healthy {
			health = d.Attributes["health"]
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%s\t%s\n", d.ID, d.Model, d.MemoryMB, strings.Join(d.Profiles, ","), d.NUMA, d.Link, health)
	}
}

func writeUses(table io.Writer, c *agent.Collector) {
	layout, err := c.Groups()
	fmt.Fprintf(table, "\nControl groups: %s\n", layout)
	if err != nil {
		fmt.Fprintf(table, "Workloads cannot be found: %v\n", err)
		return
	}
	uses := c.Uses()
	if len(uses) == 0 {
		fmt.Fprintln(table, "No workload runs here.")
		return
	}
	fmt.Fprintln(table, "\nAllocation\tTask\tCPU %\tThrottled %\tMemory MiB\tRead MiB/s\tWritten MiB/s\tCPU pressure %\tOOM kills\tFreezer group")
	for _, u := range uses {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", u.Alloc, u.Task, amount(u.CPUPercent), amount(u.ThrottledPercent),
			amount(u.MemoryMB), amount(u.ReadMBps), amount(u.WriteMBps), amount(u.CPUPressurePercent), u.OOMKills, u.Cgroups.Freezer)
	}
}

// amount writes a value of a use, which is no number where nothing is known.
func amount(v float64) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	return fmt.Sprintf("%.1f", v)
}
