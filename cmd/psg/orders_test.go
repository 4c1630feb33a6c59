package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func TestGiveOrder_SaysWhatTheControllerSays(t *testing.T) {
	var got psg.Order
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got); err != nil || r.URL.EscapedPath() != "/v1/node/n%2F1/order" {
			t.Errorf("%s: %v", r.URL, err)
		}
		_ = json.NewEncoder(w).Encode(psg.Report{Node: "n/1", Kind: got.Kind, State: psg.ReportDone})
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	order := psg.Order{Kind: psg.Throttle, Node: "n/1", Alloc: "a", Limit: psg.Resources{psg.CPU: 500}, Deadline: time.Minute}
	r, err := giveOrder(ctx, address("http://127.0.0.1:1, "+server.URL), order)
	if err != nil || r.State != psg.ReportDone {
		t.Errorf("report %+v, %v", r, err)
	}
	if got.Alloc != order.Alloc || got.Limit != order.Limit || got.Deadline != order.Deadline {
		t.Errorf("asked for %+v", got)
	}
}

func TestListReports_TellsWhoActed(t *testing.T) {
	var out bytes.Buffer
	at := time.Date(2026, 11, 30, 23, 1, 10, 0, time.UTC)
	err := listReports(&out, []psg.Report{
		{At: at, Kind: psg.Freeze, Epoch: 4, Sequence: 7, Alloc: "5b30f18b-4537", State: psg.ReportRefused, Reason: "epoch 4 is over"},
		{At: at, Kind: psg.Throttle, Unasked: true, Alloc: "5b30f18b-4537", State: psg.ReportDone, Until: at.Add(time.Minute)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4/7", "refused", "epoch 4 is over", "itself", "23:02:10"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
