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
func TestEmbedded_LocalIsAnAgentAndAnAuditor(t *testing.T) {
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
	controller := connectAs(t, Config{Server: running})
	createStreams(t, controller)
	if err := controller.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Fatal(err)
	}
	config := Config{URLs: []string{running.ClientURL()}}
	if records := replay(t, connectAs(t, config), 0); len(records) != 1 {
		t.Errorf("a local auditor reads %d records, want 1", len(records))
	}
	r := as(t, config)
	for subject, may := range map[string]bool{
		TelemetrySubject("n1"): true, ReportSubject("n1"): true,
		ledgerSubject: false, auditSubject: false, OrderSubject("n1"): false, resyncSubject: false,
		"$KV." + leaseBucket + "." + leaseKey: false, "$O." + imageBucket + ".C.x": false, "_INBOX.x": false,
		"$JS.API.STREAM.DELETE." + ledgerStream: false, "$JS.API.STREAM.UPDATE." + ledgerStream: false,
		"$JS.API.STREAM.PURGE.OBJ_" + imageBucket: false, "$JS.API.CONSUMER.CREATE." + telemetryStream: false,
	} {
		if got := r.publish(subject, nil); got != may {
			t.Errorf("without credentials one may publish on %s: %t, want %t", subject, got, may)
		}
	}
	if !r.subscribe(OrderSubject("n1")) || !r.subscribe(resyncSubject) {
		t.Error("a local agent may not hear its orders")
	}
	if r.subscribe(TelemetrySubject("n1")) || r.subscribe(ledgerSubject) {
		t.Error("without credentials one may hear what agents and the leader publish")
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
