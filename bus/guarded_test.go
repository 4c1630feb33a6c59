package bus

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/psgrid/psg/bus/credentials"
	embeddedserver "github.com/psgrid/psg/bus/server"
)

func TestEmbedded_RefusesWhoShowsNothing(t *testing.T) {
	issuer, err := credentials.OpenOrCreate(filepath.Join(t.TempDir(), "issuer.nk"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := credentials.OpenOrCreate(filepath.Join(t.TempDir(), "other.nk"))
	if err != nil {
		t.Fatal(err)
	}
	running, err := embeddedserver.Start(embeddedserver.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: authBy(t, issuer, ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Close)
	for what, options := range map[string][]nats.Option{
		"nothing":             nil,
		"a password":          {nats.UserInfo("operator", "secret")},
		"of another issuer":   {nats.UserCredentials(issued(t, other, RoleOperator))},
		"a name that is none": {nats.UserCredentials(issued(t, issuer, "root"))},
		"no agent's name":     {nats.UserCredentials(issued(t, issuer, "agent"))},
	} {
		conn, err := nats.Connect(running.ClientURL(), options...)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: Connect = %v, want a refusal", what, err)
		}
	}
}

// TestEmbedded_Local is how agents and tools on the controller's own machine come
// without credentials, where that is allowed.
func TestEmbedded_LocalDoesAllButLoseRecords(t *testing.T) {
	issuer, err := credentials.OpenOrCreate(filepath.Join(t.TempDir(), "issuer.nk"))
	if err != nil {
		t.Fatal(err)
	}
	running, err := embeddedserver.Start(embeddedserver.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: authBy(t, issuer, RoleLocal),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Close)
	config := Config{URLs: []string{running.ClientURL()}}
	local := connectAs(t, config)
	createStreams(t, local)
	if err := local.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Error(err)
	}
	r := as(t, config)
	if !r.publish(TelemetrySubject("n1"), nil) {
		t.Error("a local agent may not publish telemetry")
	}
	if err := r.js.DeleteStream(t.Context(), ledgerStream); err == nil {
		t.Error("the ledger was deleted without credentials")
	}
	// Whoever shows credentials gets no more than they give.
	config.Credentials = issued(t, issuer, "agent/n1")
	agent := as(t, config)
	if agent.publish(TelemetrySubject("n2"), nil) {
		t.Error("an agent may publish the telemetry of another node")
	}
	if !agent.publish(TelemetrySubject("n1"), nil) {
		t.Error("an agent may not publish the telemetry of its node")
	}
}
