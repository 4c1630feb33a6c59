package controller

import (
	"fmt"
	"sync"

	"github.com/psgrid/psg"
)

// asksAPoll is how many asks long polls may wait for on average: one may wait for
// many, or many for a few, but not many for many.
const asksAPoll = 16

// maxPolled is how many asks they may wait for in any case: more than any one
// call has.
const maxPolled = 1 << 16

// polls are the long polls that wait for answers, by the asks they wait for.
type polls struct {
	limit int

	mu      sync.Mutex
	count   int
	asks    int // that they wait for, together
	waiting map[psg.RequestID]map[*poll]struct{}
}

// poll is one caller waiting for any of its asks to be told.
type poll struct {
	ids  []psg.RequestID
	told chan struct{} // holds a token while the caller should look again
}

func newPolls(limit int) *polls {
	return &polls{limit: limit, waiting: map[psg.RequestID]map[*poll]struct{}{}}
}

func (p *polls) open(ids []psg.RequestID) (*poll, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= p.limit {
		return nil, fmt.Errorf("%d long polls are open: %w", p.count, psg.ErrBusy)
	}
	if p.asks+len(ids) > max(p.limit*asksAPoll, maxPolled) {
		return nil, fmt.Errorf("%d long polls wait for %d asks: %w", p.count, p.asks, psg.ErrBusy)
	}
	p.count++
	p.asks += len(ids)
	opened := &poll{ids: ids, told: make(chan struct{}, 1)}
	for _, id := range ids {
		if p.waiting[id] == nil {
			p.waiting[id] = map[*poll]struct{}{}
		}
		p.waiting[id][opened] = struct{}{}
	}
	return opened, nil
}

func (p *polls) close(closed *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
	p.asks -= len(closed.ids)
	for _, id := range closed.ids {
		delete(p.waiting[id], closed)
		if len(p.waiting[id]) == 0 {
			delete(p.waiting, id)
		}
	}
}

func (p *polls) tell(id psg.RequestID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for waiting := range p.waiting[id] {
		signal(waiting.told)
	}
}

func (p *polls) wakeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiting := range p.waiting {
		for one := range waiting {
			signal(one.told)
		}
	}
}
