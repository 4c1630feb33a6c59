package main

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestRefusals_AreLoggedNowAndThen(t *testing.T) {
	var said bytes.Buffer
	r := &refusals{log: slog.New(slog.NewTextHandler(&said, nil))}
	for range 10_000 {
		r.note(&net.TCPAddr{}, errors.New("no credentials were shown"))
	}
	if n := strings.Count(said.String(), "refused"); n < 1 || n > 1000 {
		t.Errorf("10,000 refusals made %d lines", n)
	}
}
