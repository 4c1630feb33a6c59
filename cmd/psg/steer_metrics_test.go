package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
)

func TestSteering_TellsItsFigures(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(steering{
		func() controller.SteerFigures {
			return controller.SteerFigures{Versions: 3, Stops: 2, Moves: 4, GivenUp: 1, Gap: 1500 * time.Millisecond}
		},
		func() map[psg.BlockReason]int { return map[psg.BlockReason]int{psg.BlockedByHold: 5} },
		func(time.Time) map[psg.NodeID]time.Time { return map[psg.NodeID]time.Time{"n1": {}} },
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, label := range m.GetLabel() {
				labels += "{" + label.GetValue() + "}"
			}
			if value := m.GetCounter().GetValue() + m.GetGauge().GetValue(); value != 0 {
				got = append(got, fmt.Sprintf("%s%s %v", family.GetName(), labels, value))
			}
		}
	}
	want := []string{
		"psg_blocked_groups{hold} 5", "psg_move_gap_seconds_total 1.5", "psg_moves_total{given_up} 1", "psg_moves_total{moved} 4",
		"psg_shunned_nodes 1", "psg_steer_stops_total 2", "psg_steer_versions_total 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
