package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// streams are what PSG keeps in JetStream, with every limit and what happens
// at it.
func (b *Bus) streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:        ledgerStream,
			Description: "PSG's ledger: one record a cycle, one writer",
			Subjects:    []string{ledgerSubject},
			Storage:     jetstream.FileStorage,
			Retention:   jetstream.LimitsPolicy, // with no limit set: nothing is ever dropped
			Discard:     jetstream.DiscardNew,   // and when the disk is full, appends fail
			DenyDelete:  true,
			DenyPurge:   true,
			AllowDirect: true, // every server that keeps it answers readers
			Replicas:    max(1, b.config.Replicas),
		},
		{
			Name:        auditStream,
			Description: "PSG's audit: what each ledger record decided, chained by hash",
			Subjects:    []string{auditSubject},
			Storage:     jetstream.FileStorage,
			Retention:   jetstream.LimitsPolicy,
			Discard:     jetstream.DiscardNew, // when the disk is full it lags behind the ledger
			DenyDelete:  true,
			DenyPurge:   true,
			AllowDirect: true, // every server that keeps it answers readers
			Replicas:    max(1, b.config.Replicas),
		},
	}
}

// telemetryConfig is what is kept of telemetry.
func telemetryConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              telemetryStream,
		Description:       "PSG's telemetry: the last five minutes, in memory",
		Subjects:          []string{telemetrySubject + "*"},
		Storage:           jetstream.MemoryStorage,
		Discard:           jetstream.DiscardOld,
		MaxAge:            5 * time.Minute,
		MaxMsgsPerSubject: 1500, // 200 ms for five minutes
		MaxBytes:          256 << 20,
		Replicas:          1,
		NoAck:             true, // agents want none, and could have them sent to where they may not write
	}
}

// createTimeout is how long creating one stream may take. A cluster that has
// not elected its leaders yet loses the question: asking again soon is better
// than waiting long.
const createTimeout = 3 * time.Second

// CreateStreams creates PSG's streams, or brings them to this version's limits.
// Controllers call it; agents need neither do it nor have the right to. It may
// be repeated after an error.
func (b *Bus) CreateStreams(ctx context.Context) error {
	if err := enough(b.conn.ConnectedServerVersion()); err != nil {
		return err
	}
	for _, config := range b.streams() {
		if err := b.createStream(ctx, config); err != nil {
			return err
		}
	}
	err := create(ctx, "bucket "+leaseBucket, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateKeyValue(ctx, b.leaseBucket())
		return err
	})
	if err != nil {
		return err
	}
	err = create(ctx, "bucket "+imageBucket, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateObjectStore(ctx, b.imageBucket())
		return err
	})
	if err != nil {
		return err
	}
	if err := b.createStream(ctx, telemetryConfig()); err != nil {
		// It is on one server, which may be down; controllers hear telemetry
		// without it.
		b.config.Log.Warn("telemetry is not kept", "error", err)
	}
	return nil
}

// enough reports why a server is too old: before 2.11 a direct get brings one
// message whatever is asked.
func enough(version string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && (major < 2 || major == 2 && minor < 11) {
		return fmt.Errorf("the NATS server is %s, PSG needs 2.11 or later", version)
	}
	return nil
}

func (b *Bus) createStream(ctx context.Context, config jetstream.StreamConfig) error {
	return create(ctx, "stream "+config.Name, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateStream(ctx, config)
		return err
	})
}

func create(ctx context.Context, name string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

// imageBucket keeps images of the ledger's state; Images forgets the old ones.
func (b *Bus) imageBucket() jetstream.ObjectStoreConfig {
	return jetstream.ObjectStoreConfig{
		Bucket:      imageBucket,
		Description: "PSG's images of the ledger's state: the newest three",
		Storage:     jetstream.FileStorage,
		Replicas:    max(1, b.config.Replicas),
	}
}

// leaseBucket keeps who leads. That of a server inside the only controller does
// not outlive the process: whoever starts next leads at once.
func (b *Bus) leaseBucket() jetstream.KeyValueConfig {
	config := jetstream.KeyValueConfig{
		Bucket:       leaseBucket,
		Description:  "PSG's lease: which controller may take the lead",
		History:      1,
		MaxValueSize: 4096,
		MaxBytes:     1 << 20,
		Replicas:     max(1, b.config.Replicas),
	}
	if b.config.Server != nil && b.config.Replicas <= 1 {
		config.Storage = jetstream.MemoryStorage
	}
	return config
}
