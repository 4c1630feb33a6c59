package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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
	Config  placement.Config
}

// OpenbResult is what came of a replay.
type OpenbResult struct {
	Arrivals      int
	Placed        int
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
	result, err = trace.replay(placement.New(o.Config), o.KnowMix, w)
	if err != nil {
		return result, fmt.Errorf("replay %s: %w", o.Sequence, err)
	}
	result.Took = time.Since(start)
	return result, w.Flush()
}

// replay places one arrival after the other.
func (t *openbTrace) replay(e *placement.Engine, knowMix bool, out io.Writer) (OpenbResult, error) {
	result := OpenbResult{Arrivals: len(t.sequence)}
	for _, n := range t.nodes {
		result.CapacityMilli += 1000 * int64(len(n.Devices))
		e.Apply(psg.NodeChanged{Node: n})
	}
	if knowMix {
		for _, w := range t.workloads {
			e.Apply(psg.WorkloadChanged{Workload: w})
		}
	}
	arrived := make([]int, len(t.workloads))
	for step, pod := range t.sequence {
		at := t.pods[pod]
		if !knowMix {
			arrived[at]++
			w := t.workloads[at]
			w.Count = arrived[at]
			e.Apply(psg.WorkloadChanged{Workload: w})
		}
		placed, ok := arrive(e, t.workloads[at].ID, step)
		if ok {
			result.Placed++
			for _, share := range placed.Devices {
				result.PlacedMilli += share.MilliGPU
			}
		}
		if _, err := io.WriteString(out, openbLine(placed)); err != nil {
			return result, err
		}
	}
	return result, nil
}

// arrive asks for one instance and commits what the engine decides.
func arrive(e *placement.Engine, w psg.WorkloadID, step int) (psg.Placement, bool) {
	at := time.Unix(int64(step), 0).UTC()
	ask := psg.Ask{ID: psg.RequestID(strconv.Itoa(step)), Workload: w, At: at}
	plan := e.Solve(placement.Problem{Now: at, Asks: []psg.Ask{ask}})
	if len(plan.Placements) == 0 {
		return psg.Placement{}, false
	}
	e.Apply(psg.Placed{Placement: plan.Placements[0]})
	return plan.Placements[0], true
}

// openbLine is one arrival as the referee reads it; a device's ID is its index.
func openbLine(p psg.Placement) string {
	ids := make([]string, len(p.Devices))
	for i, share := range p.Devices {
		ids[i] = string(share.Device)
	}
	return string(p.Node) + "," + strings.Join(ids, "-") + "\n"
}
