package sim

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/psgrid/psg/placement/search"
)

// Roadef is one instance of machine reassignment, the problem of the
// ROADEF/EURO challenge 2012. Costs in its files are integers; lower is better.
type Roadef struct {
	Model      string // the instance
	Assignment string // the machine of each process at first
	Out        string // written: the machine of each process at last, one a line
	Seconds    int    // how long to search; 0 means until Steps
	Steps      int64  // of each thread; 0 means until Seconds. Steps alone give the same result each time
	Threads    int    // searches side by side, with seeds from Seed upwards; 0 means 1
	Seed       uint64
}

// RoadefResult is what came of it.
type RoadefResult struct {
	Initial search.Cost
	Final   search.Cost
	Moved   int   // processes
	Steps   int64 // of all threads
	Took    time.Duration
}

// From is how far the cost is from the best that is known, in parts of the initial
// cost: below 0 where it is better.
func (r RoadefResult) From(best int64) float64 {
	initial := r.Initial.Total()
	if initial == 0 {
		return 0
	}
	return float64(r.Final.Total()-best) / float64(initial)
}

// Run searches and writes Out.
func (r Roadef) Run() (result RoadefResult, err error) {
	p, err := r.read()
	if err != nil {
		return result, err
	}
	if err := writable(r.Out); err != nil {
		return result, err // now, not when the time is up
	}
	start := time.Now()
	best, steps, err := r.solve(p, start)
	if err != nil {
		return result, fmt.Errorf("%s: %w", r.Model, err)
	}
	result = RoadefResult{Initial: p.Cost(p.Initial), Final: best.Cost, Steps: steps, Took: time.Since(start)}
	for i, machine := range best.Assignment {
		if machine != p.Initial[i] {
			result.Moved++
		}
	}
	return result, writeNumbers(r.Out, best.Assignment)
}

// solve searches in each thread by itself and takes the best, of equals the one
// with the lowest seed. The first half of several threads stays near the initial
// assignment: which of the two is better is a matter of the instance.
func (r Roadef) solve(p search.Problem, start time.Time) (best search.Result, steps int64, err error) {
	results, errs := make([]search.Result, max(1, r.Threads)), make([]error, max(1, r.Threads))
	options := search.Options{Steps: r.Steps}
	if r.Seconds > 0 {
		options.Used = func() float64 { return time.Since(start).Seconds() / float64(r.Seconds) }
	}
	var wait sync.WaitGroup
	for i := range results {
		wait.Go(func() {
			o := options
			o.Seed, o.Near = r.Seed+uint64(i), i < r.Threads/2
			results[i], errs[i] = search.Solve(p, o)
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return best, 0, errs[0]
	}
	best = results[0]
	for _, result := range results {
		steps += result.Steps
		if result.Cost.Total() < best.Cost.Total() {
			best = result
		}
	}
	return best, steps, nil
}

// writable reports why a file could not be written, and leaves what is in it.
func writable(path string) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	return out.Close()
}

func writeNumbers(path string, list []int) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriter(out)
	for _, v := range list {
		fmt.Fprintln(w, v)
	}
	return w.Flush()
}
