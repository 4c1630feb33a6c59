package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/telemetry"
)

// TestObserve_HandsOnWhatAgentsSay sends what an agent's recorder makes over a
// real bus.
func TestObserve_HandsOnWhatAgentsSay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	nats, err := server.Start(server.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	connect := func() *bus.Bus {
		connected, err := bus.Connect(bus.Config{Server: nats, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return connected
	}
	controller, agent := connect(), connect()
	defer controller.Close()
	defer agent.Close()

	recorder, err := telemetry.NewRecorder("n1", telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// The first full sample is lost: nobody listens yet.
	recorder.Node("load_1m").Put(time.Now(), 1)
	if err := agent.PublishTelemetry(ctx, recorder.Cut(time.Now())); err != nil {
		t.Fatal(err)
	}
	if err := agent.OnResync(recorder.Resync); err != nil {
		t.Fatal(err)
	}
	heard := make(chan psg.NodeObserved, 100)
	watched := make(chan error, 1)
	go func() {
		watched <- observe(ctx, controller, telemetry.NewWindows(), func(seen psg.NodeObserved) { heard <- seen }, slog.New(slog.DiscardHandler))
	}()
	beat := time.NewTicker(20 * time.Millisecond)
	defer beat.Stop()
	for sent, seen := 0, (psg.NodeObserved{}); seen.Telemetry.Metrics["load_1m"].Last != 2; {
		select {
		case <-beat.C:
			sent++
			recorder.Node("load_1m").Put(time.Now(), 2)
			if err := agent.PublishTelemetry(ctx, recorder.Cut(time.Now())); err != nil {
				t.Fatal(err)
			}
		case seen = <-heard:
			if seen.Node != "n1" || len(heard) > sent/5 {
				t.Fatalf("heard %+v, and %d more of %d samples: want them taken together", seen, len(heard), sent)
			}
		case <-ctx.Done():
			t.Fatal("nothing was heard")
		}
	}
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

// TestHandOn_WhatASilentAgentSaidCountsNoMore: a node whose agent died while all
// was busy is not avoided for ever.
func TestHandOn_WhatASilentAgentSaidCountsNoMore(t *testing.T) {
	windows := telemetry.NewWindows()
	recorder, err := telemetry.NewRecorder("n1", telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	recorder.Node("cpu_percent").Put(now, 100)
	if err := windows.Fold(recorder.Cut(now), now); err != nil {
		t.Fatal(err)
	}
	var heard []psg.NodeObserved
	for ; len(heard) < 2; now = now.Add(observeEvery) {
		if now.Unix() > 1_800_000_060 {
			t.Fatalf("heard no more than %+v in a minute", heard)
		}
		handOn(windows, func(seen psg.NodeObserved) { heard = append(heard, seen) }, now, slog.New(slog.DiscardHandler))
	}
	if heard[0].Telemetry.Metrics["cpu_percent"].Last != 100 || len(heard[1].Telemetry.Metrics) > 0 {
		t.Errorf("heard %+v", heard)
	}
	if state := agentState(&heard[1].Telemetry); state != "silent" {
		t.Errorf("people are told it is %s", state)
	}
}

// TestHeard_CountsWhatWasRefused: an agent whose clock is wrong shows.
func TestHeard_CountsWhatWasRefused(t *testing.T) {
	windows := telemetry.NewWindows()
	recorder, err := telemetry.NewRecorder("n1", telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	if err := windows.Fold(recorder.Cut(now.Add(time.Hour)), now); err == nil || !strings.Contains(err.Error(), "1h0m0s ahead") {
		t.Errorf("a sample of an hour ahead: %v", err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(heard{windows})
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("gathered %v, %v", families, err)
	}
}
