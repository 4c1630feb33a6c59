package controller

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/psgrid/psg"
)

// TestGive_SendsInTheOrderOfTheNumbers: of two at once, an agent would refuse the
// one with the lower number if it came last.
func TestGive_SendsInTheOrderOfTheNumbers(t *testing.T) {
	w, _, _ := tenanted(t)
	var mu sync.Mutex
	var sent []uint64
	first := make(chan struct{})
	agents := NewAgents(w.Controller, func(o psg.Order) error {
		if o.Sequence == 1 {
			close(first)
			select { // room for another to pass by
			case <-t.Context().Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, o.Sequence)
		return nil
	})
	var giving sync.WaitGroup
	for i := range 2 {
		giving.Go(func() {
			if i > 0 {
				<-first
			}
			_, forget, err := agents.give(&psg.Order{Kind: psg.Drain, Node: "n1"})
			forget()
			if err != nil {
				t.Error(err)
			}
		})
	}
	giving.Wait()
	if len(sent) != 2 || sent[0] != 1 || sent[1] != 2 {
		t.Errorf("sent in the order %v", sent)
	}
}

func TestReported_KeepsTheBeginningOfLongTexts(t *testing.T) {
	_, agents, _ := tenanted(t)
	long := strings.Repeat("é", 1<<20)
	agents.Reported(psg.Report{Node: "n1", Reason: long, Alloc: psg.AllocID(long), Ask: psg.RequestID(long)})
	for _, text := range []string{agents.Reports("n1")[0].Reason, string(agents.Reports("n1")[0].Alloc), string(agents.Reports("n1")[0].Ask)} {
		if len(text) > maxReportText+len("…") || !utf8.ValidString(text) || !strings.HasSuffix(text, "é…") {
			t.Errorf("%d bytes are kept", len(text))
		}
	}
}

// TestReported_AFloodFillsNoLog: an agent that reports without end is counted, and
// logged now and then.
func TestReported_AFloodFillsNoLog(t *testing.T) {
	w, agents, _ := tenanted(t)
	var logged strings.Builder
	w.config.Log = slog.New(slog.NewTextHandler(&logged, nil))
	began := time.Now()
	const sent = 5000
	for range sent {
		agents.Reported(psg.Report{Node: "n1", Kind: psg.Freeze, State: psg.ReportRefused})
	}
	seconds := int(time.Since(began)/time.Second) + 1
	if lines := strings.Count(logged.String(), "agent reports"); lines == 0 || lines > 20*(seconds+1) {
		t.Errorf("%d lines are logged in %d s", lines, seconds)
	}
	if n := agents.Counts()[ReportCount{psg.Freeze, psg.ReportRefused, false}]; n != sent {
		t.Errorf("%d are counted", n)
	}
}
