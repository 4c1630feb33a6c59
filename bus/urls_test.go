package bus

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestValidate_NamesTheURLThatMakesNoSense(t *testing.T) {
	config := func(urls ...string) Config { return Config{URLs: urls, Log: slog.New(slog.DiscardHandler)} }
	if err := config("nats://127.0.0.1:4222", "127.0.0.1:4222", "localhost", "tls://[::1]:1", " wss://bus.example", "nats://a:b@c").Validate(); err != nil {
		t.Error(err)
	}
	for bad, want := range map[string]string{
		"bogus://x": "bogus", "": "no host", "nats://": "no host", "http://127.0.0.1:4222": `scheme "http"`, "nats://user:secret@h:port": "port",
	} {
		err := config("nats://127.0.0.1", bad).Validate()
		if err == nil || !strings.Contains(err.Error(), "URL 2") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestServers_TellNoSecret(t *testing.T) {
	got := Config{URLs: []string{"nats://user:pa@ss@one:4222", "token@two", "tls://three"}}.Servers()
	if want := []string{"nats://one:4222", "nats://two", "tls://three"}; !slices.Equal(got, want) {
		t.Errorf("servers %q, want %q", got, want)
	}
}
