package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func TestServeREST_WaitsForNoClientThatDoesNotRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				ended <- err
				return
			}
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serveREST(ctx, listener, handler, 50*time.Millisecond) }()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: psg\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the answer is kept for a client that does not read it")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The most asks that one call may have are answered, refused at length each.
func TestClient_TakesTheLargestAnswer(t *testing.T) {
	asks := make([]psg.Ask, maxAsks)
	for i := range asks {
		asks[i].ID = psg.RequestID(fmt.Sprint("ask-", i))
	}
	summary := strings.Repeat("no node has room. ", 60)
	b := &brain{orders: func(asks []psg.Ask, _ uint64) []psg.Order {
		orders := make([]psg.Order, len(asks))
		for i, ask := range asks {
			orders[i] = psg.Order{Kind: psg.Wait, Ask: ask.ID, Refusal: &psg.Refusal{Ask: ask.ID, State: psg.Queued, Summary: summary}}
		}
		return orders
	}}
	client := dial(t, serveBrain(t, b))
	if orders, _, err := client.PlaceAll(t.Context(), asks, 0); err != nil || len(orders) != maxAsks || orders[maxAsks-1].Refusal.Summary != summary {
		t.Errorf("%d orders, %v, want %d", len(orders), err, maxAsks)
	}
	// A call that is too large to be taken is no reason to try again.
	for i := range asks {
		asks[i].ID = psg.RequestID(strings.Repeat("x", 500) + fmt.Sprint(i))
	}
	if _, _, err := client.PlaceAll(t.Context(), asks, 0); !errors.Is(err, psg.ErrInvalid) || errors.Is(err, psg.ErrBusy) {
		t.Errorf("a call of 5 MB: %v, want ErrInvalid", err)
	}
}

func TestWriteJSON_SaysWhatJSONHasNoFormOf(t *testing.T) {
	recorder := httptest.NewRecorder()
	WriteJSON(recorder, http.StatusOK, []any{psg.Stats{Mean: math.NaN()}})
	var told struct{ Error string }
	if err := json.Unmarshal(recorder.Body.Bytes(), &told); err != nil || recorder.Code != http.StatusInternalServerError || !strings.Contains(told.Error, "NaN") {
		t.Errorf("answer = %d %s", recorder.Code, recorder.Body)
	}
}
