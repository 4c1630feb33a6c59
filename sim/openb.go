package sim

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/placement"
)

// Openb is one replay of the openb GPU cluster trace: arrivals only, one
// attempt each, what is rejected is dropped.
type Openb struct {
	Nodes    string // CSV: sn,cpu_milli,memory_mib,gpu,model
	Pods     string // CSV: name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec,…]
	Sequence string // row numbers of Pods in the order of arrival, one a line; .gz may be compressed
	Out      string // written: node_name,gpu_ids for each arrival
	// KnowMix registers the whole trace before the first arrival, so that
	// fragmentation is measured against its mix of pods from the start. Else
	// the mix is what has arrived.
	KnowMix bool
	// MovesPercent is how many placements may move, in percent of the pods that
	// have arrived: to make room for arrivals that would be rejected, and every
	// improveEvery arrivals for what a move gains by itself. 0 means none.
	MovesPercent int
	Config       placement.Config
}

// improveEvery is how many arrivals pass between two looks for better places.
const improveEvery = 100

// OpenbResult is what came of a replay.
type OpenbResult struct {
	Arrivals      int
	Placed        int
	Moved         int
	CapacityMilli int64 // of all cards
	PlacedMilli   int64
	Took          time.Duration
}

// AllocationPercent is the milli-GPU placed, of all there is.
func (r OpenbResult) AllocationPercent() float64 {
	if r.CapacityMilli == 0 {
		return 0
	}
	return 100 * float64(r.PlacedMilli) / float64(r.CapacityMilli)
}

// Run replays the trace and writes Out.
func (o Openb) Run() (result OpenbResult, err error) {
	trace, err := o.read()
	if err != nil {
		return result, err
	}
	out, err := os.Create(o.Out)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriter(out)
	start := time.Now()
	r := replay{trace: trace, engine: placement.New(o.Config), out: w, knowMix: o.KnowMix, movesPercent: o.MovesPercent}
	result, err = r.run()
	if err != nil {
		return result, fmt.Errorf("replay %s: %w", o.Sequence, err)
	}
	result.Took = time.Since(start)
	return result, w.Flush()
}

// replay is one run over a trace.
type replay struct {
	trace        *openbTrace
	engine       *placement.Engine
	out          *bufio.Writer
	knowMix      bool
	movesPercent int
	arrived      []int // by workload
	result       OpenbResult
}

// run places one arrival after the other.
func (r *replay) run() (OpenbResult, error) {
	r.result.Arrivals = len(r.trace.sequence)
	r.arrived = make([]int, len(r.trace.workloads))
	for _, n := range r.trace.nodes {
		r.result.CapacityMilli += 1000 * int64(len(n.Devices))
		r.engine.Apply(psg.NodeChanged{Node: n})
	}
	if r.knowMix {
		for _, w := range r.trace.workloads {
			r.engine.Apply(psg.WorkloadChanged{Workload: w})
		}
	}
	for step, pod := range r.trace.sequence {
		if step%improveEvery == 0 && r.budget(step) > 0 {
			now := time.Unix(int64(step), 0).UTC()
			r.carryOut(r.engine.Improve(placement.Problem{Now: now}, r.budget(step)))
		}
		placed := r.arrive(step, r.trace.pods[pod])
		if placed.Node != "" {
			r.result.Placed++
		}
		for _, share := range placed.Devices {
			r.result.PlacedMilli += share.MilliGPU
		}
		if _, err := r.out.WriteString(openbLine(placed)); err != nil {
			return r.result, err
		}
	}
	return r.result, nil
}

// arrive asks for one instance and commits what the engine decides; without a
// place the placement is empty.
func (r *replay) arrive(step, at int) psg.Placement {
	w := r.trace.workloads[at]
	if r.arrived[at]++; !r.knowMix {
		w.Count = r.arrived[at]
		r.engine.Apply(psg.WorkloadChanged{Workload: w})
	}
	now := time.Unix(int64(step), 0).UTC()
	ask := psg.Ask{ID: psg.RequestID(strconv.Itoa(step)), Workload: w.ID, At: now}
	p := placement.Problem{Now: now, Asks: []psg.Ask{ask}}
	placements := r.engine.Solve(p).Placements
	if len(placements) == 0 && r.budget(step) > 0 {
		improved := r.engine.MakeRoom(p, r.budget(step))
		r.carryOut(improved)
		placements = improved.Placements
	}
	if len(placements) == 0 {
		return psg.Placement{}
	}
	r.engine.Apply(psg.Placed{Placement: placements[0]})
	return placements[0]
}

// budget is how many moves are left at an arrival.
func (r *replay) budget(step int) int {
	return r.movesPercent*(step+1)/100 - r.result.Moved
}

// carryOut makes moves and writes them down.
func (r *replay) carryOut(improved placement.Improvement) {
	for _, move := range improved.Moves {
		arrived := move.Placement
		arrived.State = psg.Running
		r.engine.Apply(psg.Placed{Placement: arrived})
		r.result.Moved++
		// A failed write stays with the writer, and the next line reports it.
		fmt.Fprintf(r.out, ">%s,%s", arrived.Ask.ID, openbLine(arrived))
	}
}

// openbLine is one arrival as the referee reads it; a device's ID is its index.
func openbLine(p psg.Placement) string {
	ids := make([]string, len(p.Devices))
	for i, share := range p.Devices {
		ids[i] = string(share.Device)
	}
	return string(p.Node) + "," + strings.Join(ids, "-") + "\n"
}
