package incident

import (
	"context"
	"encoding/binary"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// What docs/design/0008 fixes.
const (
	quietFor      = 10 * time.Second // for the objective
	leastGoal     = 5 * time.Millisecond
	goalFactor    = 3
	harmWithin    = 10 * time.Second
	censorAfter   = 150 * time.Second
	scrapeEvery   = 30 * time.Second
	badScrapes    = 2
	horizon       = 60 * time.Second // of the antagonist's work
	probeEvery    = 100 * time.Millisecond
	warmFor       = 5 * time.Second
	rateFrom      = 3 * time.Second
	rateFor       = 5 * time.Second
	mandateEvery  = 2 * time.Second
	victimMHz     = 100
	bystanderMHz  = 400
	antagonistMHz = 800
)

// bench is one measurement: a rig, and what was measured of it before.
type bench struct {
	*rig
	goals map[string]time.Duration
	rates map[string]float64 // pieces of an undisturbed antagonist's work in a second
}

// scene is who is on the node in one incident.
type scene struct {
	victim, bystander, antagonist *task
	port, status                  string
	judge                         *judge
	stopJudge                     func()
}

func (b *bench) open(kind, stops string) *scene {
	b.Helper()
	s := &scene{port: freePort(b.T), status: filepath.Join(b.dir, kind+".status")}
	_ = os.Remove(s.status)
	url := "http://127.0.0.1:" + s.port + "/"
	s.victim = b.start(victimMHz, nil, built.load, "victim", kind, "127.0.0.1:"+s.port, filepath.Join(b.dir, kind+".victim"))
	s.bystander = b.start(bystanderMHz, nil, built.load, "bystander")
	var env []string
	if stops == "finishing" {
		env = append(env, "FINISHING=1")
	}
	s.antagonist = b.start(antagonistMHz, env, built.load, "antagonist", kind, filepath.Join(b.dir, kind+".antagonist"), s.status)
	client := &http.Client{Timeout: time.Second}
	b.until(60*time.Second, "victim and antagonist are ready", func() bool {
		if !s.ready() {
			return false
		}
		response, err := client.Get(url)
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
	s.judge, s.stopJudge = newJudge(url)
	return s
}

func (b *bench) close(s *scene) {
	s.stopJudge()
	for _, t := range []*task{s.antagonist, s.bystander, s.victim} {
		b.end(t)
	}
}

// ready reports whether the antagonist waits to begin.
func (s *scene) ready() bool {
	_, err := os.Stat(s.status)
	return err == nil
}

// units is how many pieces of work the antagonist has done.
func (s *scene) units() float64 {
	data, err := os.ReadFile(s.status)
	if err != nil || len(data) != 8 {
		return 0
	}
	return float64(binary.LittleEndian.Uint64(data))
}

// begin is the onset of the incident.
func (b *bench) begin(s *scene) {
	if err := s.antagonist.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		b.Fatal(err)
	}
}

// calibrate measures how a kind's victim is when all is well, and what its
// antagonist does undisturbed.
func (b *bench) calibrate(kind string) {
	s := b.open(kind, "prompt")
	defer b.close(s)
	b.wait(warmFor)
	from := s.judge.now()
	b.wait(quietFor)
	b.goals[kind] = max(leastGoal, goalFactor*p95(within(s.judge.all(), from, s.judge.now())))
	b.begin(s)
	b.wait(rateFrom)
	before := s.units()
	b.wait(rateFor)
	b.rates[kind] = (s.units() - before) / rateFor.Seconds()
	b.Logf("%s: objective %s, an undisturbed antagonist does %.1f pieces a second", kind, b.goals[kind], b.rates[kind])
}

// wait lets time pass: it is what is measured here.
func (b *bench) wait(d time.Duration) { <-time.After(d) }

// lead is the leader of the node for one incident: it repeats the mandate.
func (b *bench) lead(s *scene, goal time.Duration) (stop func()) {
	mandate := psg.Mandate{CPU: int64(coreMHz * runtime.NumCPU()), Charges: []psg.Charge{
		{Alloc: s.antagonist.alloc, Yields: true, Floor: psg.Resources{psg.CPU: antagonistMHz / 10, psg.Memory: 32}},
		{Alloc: s.bystander.alloc, Yields: true, Floor: psg.Resources{psg.CPU: bystanderMHz / 10, psg.Memory: 8}},
		{Alloc: s.victim.alloc, Protected: true, Probe: &psg.Probe{Port: s.port, Path: "/", Interval: probeEvery, Objective: goal}},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	var leading sync.WaitGroup
	leading.Go(func() {
		for again := time.NewTicker(mandateEvery / 10); ; {
			b.mu.Lock()
			b.sequence++
			o := psg.Order{Kind: psg.Entrust, Node: nodeID, Epoch: 1, Sequence: b.sequence, Deadline: 30 * time.Second, Mandate: &mandate}
			b.mu.Unlock()
			if err := b.bus.PublishOrder(o); err != nil {
				b.Error(err)
			}
			select {
			case <-ctx.Done():
				again.Stop()
				return
			case <-again.C:
				again.Reset(mandateEvery)
			}
		}
	})
	return func() { cancel(); leading.Wait() }
}

// incident runs one incident to its end. phase is where in its interval the
// baseline's scrape is at the onset, 0 to 1.
func (b *bench) incident(o outcome, phase float64, whole bool) outcome {
	goal := b.goals[o.Kind]
	o.Objective = float64(goal) / float64(time.Millisecond)
	s := b.open(o.Kind, o.Stops)
	defer b.close(s)
	heal := map[string]string{"baseline": "off", "equal": "report", "psg": "act"}[o.Arm]
	agent := b.startAgent("-heal", heal)
	defer func() { _ = b.endAgent(agent, syscall.SIGTERM) }()
	stopLead := b.lead(s, goal)
	defer stopLead()
	b.wait(warmFor + time.Duration(phase*float64(time.Second)))

	e := &episode{bench: b, scene: s, goal: goal, outcome: o, onset: s.judge.now(), began: time.Now()}
	e.scrape = e.onset + time.Duration(phase*float64(scrapeEvery))
	e.scraped = e.scrape - scrapeEvery
	b.begin(s)
	poll := time.NewTicker(callEvery)
	defer poll.Stop()
	for !e.over(whole) {
		<-poll.C
		e.step()
	}
	e.stopping.Wait()
	e.account(whole)
	return e.outcome
}

// episode is an incident under way.
type episode struct {
	*bench
	scene *scene
	goal  time.Duration
	onset time.Duration // by the judge's clock
	began time.Time     // likewise, of the wall
	outcome

	scraped, scrape time.Duration // the last scrape, and the next
	bad             int           // scrapes on end
	seen            int           // reports acted upon
	stopping        sync.WaitGroup
	stopped         bool
	harm            time.Duration
}

// step lets the arm act, and looks how the victim is.
func (e *episode) step() {
	calls, now := e.scene.judge.all(), e.scene.judge.now()
	switch e.Arm {
	case "baseline":
		e.monitor(calls, now)
	case "equal", "psg":
		e.follow()
	}
	if e.Harmed == 0 {
		if at, ok := harmed(calls, e.onset, e.goal); ok {
			e.harm, e.Harmed = at, max(0.001, (at-e.onset).Seconds())
		}
	}
	if e.Harmed > 0 && e.Recovered == 0 {
		if at, ok := recovered(calls, e.harm, now, e.goal); ok {
			e.Recovered = (at - e.onset).Seconds()
		}
	}
}

// monitor is the baseline: it looks every 30 s, and acts at the second bad look
// on end.
func (e *episode) monitor(calls []call, now time.Duration) {
	if now < e.scrape {
		return
	}
	if p95(within(calls, e.scraped, e.scrape)) > e.goal {
		e.bad++
	} else {
		e.bad = 0
	}
	e.scraped, e.scrape = e.scrape, e.scrape+scrapeEvery
	if e.bad >= badScrapes && e.Detected == 0 {
		e.Detected = time.Since(e.began).Seconds()
		e.reschedule(e.scene.antagonist)
	}
}

// follow is both arms with the agent's detection: PSG's throttles by itself, the
// other's detection has whom it names stopped.
func (e *episode) follow() {
	found := e.reported(func(r psg.Report) bool {
		return r.Unasked && r.Kind == psg.Throttle && r.At.After(e.began) && r.State != psg.ReportUndone
	})
	for ; e.seen < len(found); e.seen++ {
		r := found[e.seen]
		right := r.Alloc == e.scene.antagonist.alloc
		if !right {
			e.False++
		} else if e.Detected == 0 {
			e.Detected = r.At.Sub(e.began).Seconds()
		}
		if r.State == psg.ReportFailed {
			e.Errorf("not throttled: %s", r.Reason)
		}
		if e.Arm == "equal" {
			whom := e.scene.antagonist
			if !right {
				whom = e.scene.bystander
			}
			e.reschedule(whom)
		}
	}
}

func (e *episode) reschedule(t *task) {
	e.stopped = e.stopped || t == e.scene.antagonist
	e.stopping.Go(t.stop)
}

// over reports whether there is nothing more to measure.
func (e *episode) over(whole bool) bool {
	passed := e.scene.judge.now() - e.onset
	switch {
	case e.Harmed == 0:
		return passed > harmWithin
	case e.Recovered > 0 && (!whole || passed > horizon):
		return true
	case e.Recovered == 0 && passed > censorAfter:
		e.Censored, e.Recovered = true, censorAfter.Seconds()
		e.Logf("censored; the agent said:\n%s", e.agentSaid())
		return true
	}
	return false
}

// account says how much of the antagonist's work was lost, as far as is known.
func (e *episode) account(whole bool) {
	all := e.rates[e.Kind] * horizon.Seconds()
	switch {
	case e.stopped && e.Stops == "prompt":
		e.Lost, e.LostKnown = 1, true
	case e.stopped, whole:
		e.Lost, e.LostKnown = 1-min(1, e.scene.units()/all), true
	}
}

// tries is how often an incident in which nobody is harmed is repeated.
const tries = 3

// TestIncidents measures what docs/design/0008 fixes: `make bench-incident`.
func TestIncidents(t *testing.T) {
	if *incidents == 0 && *from == "" {
		t.Skip("SKIPPED: measured only when asked for: make bench-incident")
	}
	var all []outcome
	if *from != "" {
		var err error
		if all, err = readOutcomes(*from); err != nil {
			t.Fatal(err)
		}
	}
	if *incidents > 0 {
		b := &bench{rig: newRig(t), goals: map[string]time.Duration{}, rates: map[string]float64{}}
		for _, kind := range strings.Split(*kinds, ",") {
			b.calibrate(kind)
		}
		for block := range *incidents {
			all = append(all, b.block(*first+block)...)
		}
	}
	if err := report(os.Stdout, all); err != nil {
		t.Fatal(err)
	}
}
