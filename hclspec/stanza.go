package hclspec

import (
	"time"

	"github.com/psgrid/psg"
)

// Stanza is the config of a task with driver "psg". Without a command the task
// is a gate: it ends when its group may start here. With one it runs that
// command once it may.
type Stanza struct {
	Command     string
	Args        []string
	Tenant      string // empty means the namespace
	Tier        string
	Kind        string // empty means the job's type
	Labels      map[string]string
	Preemptible bool
	Gang        bool          // all instances of the group start together or none
	Deadline    time.Duration // 0 means none
	GPU         *GPU          // nil means no card
	Disruption  *Disruption   // nil means as the group's migrate block says
	Probe       *Probe        // nil means that nobody asks
}

// Disruption bounds what PSG may do to running instances to move them.
type Disruption struct {
	MaxUnavailable int64  // instances that may be down at once, at least 0
	Order          string // "start_first", "stop_first", or empty for whichever the group allows
}

// GPU is the cards one instance asks for.
type GPU struct {
	Count  int64 // cards, at least 1
	Share  int64 // milli-GPU of each card, 0..1000; 0 only beside Memory or Profile
	Memory int64 // MiB on each card; 0 means none beyond the share
	Model  string
	// Profile is the MIG profile each card is cut into; empty means uncut.
	Profile string
	Linked  bool // all on one link island
}

const (
	wholeCard = 1000
	maxCards  = 1024
	notGiven  = -1 << 63
)

// StanzaFields declares the config of a psg task.
func StanzaFields() []Field { return new(Stanza).fields() }

func (s *Stanza) fields() []Field {
	gpu, disruption, probe := new(GPU), new(Disruption), new(Probe)
	return []Field{
		StringField("command", &s.Command, "Program to run once the allocation may start here; without it the task is a gate and ends then."),
		ListField("args", &s.Args, "Arguments of the command."),
		StringField("tenant", &s.Tenant, "Owner whose fair share the group counts against; the namespace when not given."),
		StringField("tier", &s.Tier, "Service tier that policies may read, such as `gold`."),
		StringField("kind", &s.Kind, "What the group does, such as `inference` or `training`; the job's type when not given."),
		MapField("labels", &s.Labels, "Labels that policies may read."),
		BoolField("preemptible", &s.Preemptible, "Whether the group may be stopped in favour of others.").or(false),
		BoolField("gang", &s.Gang, "Whether all instances of the group start together or none does.").or(false),
		DurationField("deadline", &s.Deadline, "Wanted time from submission to start."),
		BlockField("gpu", &s.GPU, gpu, gpu.fields(), "Cards that each instance needs."),
		BlockField("disruption", &s.Disruption, disruption, disruption.fields(), "What PSG may do to running instances to move them; as `migrate` says when not given."),
		BlockField("probe", &s.Probe, probe, probe.fields(), "How the node's agent asks each instance whether it is well; one that declares it is protected from its neighbours."),
	}
}

func (d *Disruption) fields() []Field {
	return []Field{
		NumberField("max_unavailable", &d.MaxUnavailable, "Instances that may be down at once; with 0 nothing is stopped before another runs in its place.").or(int64(1)),
		StringField("order", &d.Order, "`start_first` or `stop_first`; when not given, the first for services whose `update` block lets canaries promote themselves."),
	}
}

func (g *GPU) fields() []Field {
	g.Share = notGiven
	return []Field{
		NumberField("count", &g.Count, "Number of cards.").or(int64(1)),
		NumberField("share", &g.Share, "Milli-GPU of each card; 1000 is a whole one. When not given: 0 if `memory` or `profile` is given, else 1000."),
		NumberField("memory", &g.Memory, "MiB of memory on each card; a card asked for by memory alone is shared.").or(int64(0)),
		StringField("model", &g.Model, "Model that each card must be, such as `A100`."),
		StringField("profile", &g.Profile, "MIG profile that each card is cut into, such as `1g.10gb`."),
		BoolField("linked", &g.Linked, "Whether all cards must be on one link island (NVLink).").or(false),
	}
}

// DecodeStanza reads the config of a psg task as it stands in job JSON, as an
// HCL parser gives it or as the driver gets it. An error is an Errors, each of
// which names its field.
func DecodeStanza(config map[string]any) (Stanza, error) {
	var s Stanza
	errs := decode(s.fields(), config, "")
	if len(errs) == 0 {
		errs = s.check()
	}
	if err := errs.err(); err != nil {
		return Stanza{}, err
	}
	return s, nil
}

func (s *Stanza) check() Errors {
	var c checker
	c.require(s.Command != "" || len(s.Args) == 0, "args", "needs a command")
	c.require(s.Deadline >= 0, "deadline", "must not be negative, got %v", s.Deadline)
	if s.GPU != nil {
		s.GPU.check(&c)
	}
	if d := s.Disruption; d != nil {
		c.require(0 <= d.MaxUnavailable && d.MaxUnavailable <= psg.MaxQuantity, "disruption.max_unavailable", "must not be negative, got %d", d.MaxUnavailable)
		order := psg.MoveOrder(d.Order)
		c.require(order == "" || order == psg.StartFirst || order == psg.StopFirst, "disruption.order", "must be %q or %q, got %q", psg.StartFirst, psg.StopFirst, d.Order)
		c.require(order != psg.StopFirst || d.MaxUnavailable > 0, "disruption.order", "%q needs a max_unavailable of 1 or more: nothing could move", psg.StopFirst)
	}
	if s.Probe != nil {
		s.Probe.check(&c)
	}
	return c.errs
}

func (g *GPU) check(c *checker) {
	byPart := g.Memory > 0 || g.Profile != ""
	if g.Share == notGiven {
		g.Share = wholeCard
		if byPart {
			g.Share = 0
		}
	}
	c.require(1 <= g.Count && g.Count <= maxCards, "gpu.count", "must be 1 to %d, got %d", maxCards, g.Count)
	c.require(0 <= g.Share && g.Share <= wholeCard, "gpu.share", "must be 0 to %d milli-GPU, got %d", wholeCard, g.Share)
	c.require(g.Share != 0 || byPart, "gpu.share", "0 needs memory or profile beside it")
	c.require(0 <= g.Memory && g.Memory <= psg.MaxQuantity, "gpu.memory", "must be 0 to %d MiB, got %d", int64(psg.MaxQuantity), g.Memory)
}

// DeviceAsk is what g asks of placement on behalf of a task.
func (g GPU) DeviceAsk(task string) psg.DeviceAsk {
	ask := psg.DeviceAsk{
		Name:     "gpu",
		Task:     task,
		Count:    int(g.Count),
		MilliGPU: g.Share,
		MemoryMB: g.Memory,
		Profile:  g.Profile,
		Linked:   g.Linked,
	}
	if g.Model != "" {
		ask.Constraints = []psg.Constraint{{
			Left: "${device.model}", Operator: psg.Equal, Right: g.Model, Scope: psg.TaskScope,
		}}
	}
	return ask
}
