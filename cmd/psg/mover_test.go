package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

func TestMover_AsksAgainWhenOthersAreBeingMoved(t *testing.T) {
	asked := 0
	face := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			rpc.WriteError(w, psg.ErrBusy)
			return
		}
		_ = json.NewEncoder(w).Encode(rebalanced{})
	}))
	defer face.Close()
	var shown bytes.Buffer
	m := mover{c: &command{ctx: t.Context(), stdout: &shown}, at: address(face.URL), node: "n1", body: rebalanceBody{Empty: true}}
	if err := m.run(time.Minute); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times, want it to end well with the second\n%s", err, asked, &shown)
	}
	asked = 0
	if err := m.run(0); err == nil {
		t.Errorf("ended well although nothing could be begun: %s", &shown)
	}
}
