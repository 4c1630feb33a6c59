package controller

import (
	"fmt"
	"sync"

	"github.com/psgrid/psg"
)

// polls are the long polls that wait for answers, by the asks they wait for.
type polls struct {
	limit int

	mu      sync.Mutex
	count   int
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
	p.count++
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
