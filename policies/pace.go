package policies

import "time"

// pace keeps what is done beside the decisions to a share of one processor, by a
// rest after each stretch of work. Decisions are slow where the collector of
// garbage finds no idle processor and has whoever allocates help it; without
// rests a large load is what keeps it from finding one. A nil pace never rests.
type pace struct {
	share float64
	until time.Time // when resting ends: what takes longer goes on at full speed
	since time.Time // when the last rest was over
	steps uint
}

// stretch is the least work between two rests.
const stretch = 2 * time.Millisecond

// maxPaced bounds how long anything takes because of its rests.
const maxPaced = 10 * time.Second

func (c Config) pace(most time.Duration) *pace {
	now := time.Now()
	return &pace{share: c.ReloadShare, until: now.Add(min(most, maxPaced)), since: now}
}

// step is called between small pieces of work, of a microsecond or so.
func (p *pace) step() {
	if p == nil {
		return
	}
	if p.steps++; p.steps%256 == 0 {
		p.rest()
	}
}

// rest rests, if it is time to.
func (p *pace) rest() {
	if p == nil {
		return
	}
	now := time.Now()
	worked := now.Sub(p.since)
	if worked < stretch {
		return
	}
	time.Sleep(min(time.Duration(float64(worked)*(1/p.share-1)), p.until.Sub(now)))
	p.since = time.Now()
}
