package shim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/psgrid/psg"
)

// Describe translates job JSON and writes the workloads and losses: for people,
// or as indented JSON.
func Describe(w io.Writer, data []byte, asJSON bool) error {
	t, err := Translate(data)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(t)
	}
	return t.Text(w)
}

// Text writes the translation for people, with the unit of every quantity.
func (t Translation) Text(w io.Writer) error {
	p := page{out: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	for _, workload := range t.Workloads {
		p.workload(workload)
	}
	p.line("Not carried over (%d)", len(t.Losses))
	for _, loss := range t.Losses {
		p.row(loss.Path, "%s", loss.Detail)
	}
	if p.err != nil {
		return p.err
	}
	return p.out.Flush()
}

// page writes lines and remembers the first error.
type page struct {
	out *tabwriter.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// row writes a name and a value, aligned with the rows around it.
func (p *page) row(name, format string, args ...any) {
	p.line("  %s\t%s", printable(name), printable(fmt.Sprintf(format, args...)))
}

// printable keeps what a job says from steering the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func (p *page) workload(w psg.Workload) {
	p.line("Workload %s", w.ID)
	instances := strconv.Itoa(w.Count)
	if w.Type.EveryNode() {
		instances = "one on every node that qualifies"
	}
	p.row("type", "%s, instances: %s, priority %d", w.Type, instances, w.Priority)
	p.row("tenant", "%s", w.Tenant)
	p.row("kind", "%s", w.Kind)
	if w.Tier != "" {
		p.row("tier", "%s", w.Tier)
	}
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		p.row("label", "%s = %s", key, w.Labels[key])
	}
	for _, set := range []struct {
		name string
		on   bool
	}{{"preemptible", w.Preemptible}, {"gang", w.Gang != ""}, {"held", w.Held}} {
		if set.on {
			p.row(set.name, "yes")
		}
	}
	p.row("request", "%s", amounts(w.Request))
	for _, task := range w.Tasks {
		p.row("  task "+task.Name, "%s, driver %s: %s", task.Lifecycle, task.Driver, amounts(task.Request))
	}
	p.needs(w)
	p.where(w)
	p.when(w)
	p.line("")
}

func (p *page) when(w psg.Workload) {
	if u := w.Update; u != nil {
		p.row("update", "%d at a time, %d canaries, healthy within %v", u.MaxParallel, u.Canary, u.HealthyDeadline)
	}
	if m := w.Migrate; m != nil {
		p.row("migrate", "%d at a time", m.MaxParallel)
	}
	if r := w.Reschedule; r != nil && r.Unlimited {
		p.row("reschedule", "without limit, after %v", r.Delay)
	} else if r != nil {
		p.row("reschedule", "%d times in %v, after %v", r.Attempts, r.Interval, r.Delay)
	}
	if d := w.Disconnect; d != nil {
		p.row("disconnect", "lost after %v, stopped after %v", d.LostAfter, d.StopAfter)
	}
	if w.Deadline > 0 {
		p.row("deadline", "%v from submission to start", w.Deadline)
	}
	if w.Periodic != nil {
		p.row("periodic", "%s (%s)", strings.Join(w.Periodic.Specs, "; "), w.Periodic.TimeZone)
	}
	if w.Parameterized != nil {
		p.row("parameterized", "runs when dispatched")
	}
}

func (p *page) needs(w psg.Workload) {
	for _, d := range w.Devices {
		text := fmt.Sprintf("%d x %s, %d milli-GPU each", d.Count, d.Name, d.MilliGPU)
		if d.MemoryMB > 0 {
			text += fmt.Sprintf(", %d MiB of its memory", d.MemoryMB)
		}
		if d.Profile != "" {
			text += ", profile " + d.Profile
		}
		if d.Linked {
			text += ", linked"
		}
		p.row("device", "%s (task %s)", text, d.Task)
		for _, c := range d.Constraints {
			p.row("  where", "%s", condition(c))
		}
	}
	for _, port := range w.Ports {
		kind := "dynamic"
		if port.Static != 0 {
			kind = "static " + strconv.Itoa(port.Static)
		}
		if port.To > 0 {
			kind += " to " + strconv.Itoa(port.To)
		}
		if port.HostNetwork != "" {
			kind += " on network " + port.HostNetwork
		}
		p.row("port", "%s: %s", port.Label, kind)
	}
	for _, v := range w.Volumes {
		p.row("volume", "%s: %s %s", v.Name, v.Type, v.Source)
	}
}

func (p *page) where(w psg.Workload) {
	p.row("datacenters", "%s", strings.Join(w.Datacenters, " "))
	p.row("node pool", "%s", w.NodePool)
	for _, c := range w.Constraints {
		p.row("constraint", "%s (%s)", condition(c), c.Scope)
	}
	for _, a := range w.Affinities {
		p.row("affinity", "%s, weight %d (%s)", condition(a.Constraint), a.Weight, a.Scope)
	}
	for _, s := range w.Spreads {
		var targets []string
		for _, target := range s.Targets {
			targets = append(targets, fmt.Sprintf(" %s %d%%", target.Value, target.Percent))
		}
		p.row("spread", "%s%s, weight %d (%s)", s.Attribute, strings.Join(targets, ""), s.Weight, s.Scope)
	}
}

func condition(c psg.Constraint) string {
	return strings.Join(strings.Fields(c.Left+" "+string(c.Operator)+" "+c.Right), " ")
}

// units is the unit of each dimension, for people.
var units = [psg.Dimensions]string{
	psg.CPU: "MHz of CPU", psg.Cores: "cores", psg.Memory: "MiB of memory", psg.MemoryMax: "MiB at most",
	psg.Disk: "MiB of disk", psg.Network: "Mbit/s", psg.IOPS: "I/O operations per second",
}

// amounts lists what is not zero; the memory ceiling only where it differs.
func amounts(r psg.Resources) string {
	if r[psg.MemoryMax] == r[psg.Memory] {
		r[psg.MemoryMax] = 0
	}
	var parts []string
	for d, amount := range r {
		if amount != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", amount, units[d]))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
