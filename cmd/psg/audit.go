package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/ledger"
)

// natsAddress is where the bus is, for commands that read it themselves: an
// auditor does not ask the controller it audits.
type natsAddress struct {
	urls, credentials string
	tls               natsTLS
}

func (n *natsAddress) define(flags *flag.FlagSet) {
	flags.StringVar(&n.urls, "nats", cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"), "comma-separated `URLs` of the bus; default is NATS_URL")
	flags.StringVar(&n.credentials, "nats-creds", "", "NATS credentials `file`")
	n.tls.define(flags)
}

func (n *natsAddress) connect(stderr io.Writer) (*bus.Bus, error) {
	log, err := newLogger(stderr, "warn", false)
	if err != nil {
		return nil, err
	}
	security, err := bus.ClientTLS(n.tls.ca, n.tls.cert, n.tls.key)
	if err != nil {
		return nil, err
	}
	return bus.Connect(bus.Config{Name: "psg audit", URLs: strings.Split(n.urls, ","), Credentials: n.credentials, TLS: security, Log: log})
}

func auditVerifyCommand() *command {
	var out output
	var at natsAddress
	var anchor string
	var alone bool
	return &command{
		name: "audit verify", args: "[-anchor POSITION:HASH] [-alone] [-nats URLS] [-json | -t TEMPLATE]",
		synopsis: "Prove that the audit is whole and tells what the ledger says",
		help: `
Reads the audit stream from the bus and follows its chain of hashes: an entry
that was changed, removed or put elsewhere breaks it. Then compares each record
with what its ledger record gives, so that nothing is missing from either, the
newest minute apart. Prints the head of the chain.

-anchor is a head that you noted earlier, from the controller's log line "audit
head" or the metric psg_audit_head: the chain must pass through it. Without it,
whoever can write the server's disk could have written a whole new chain.`,
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
			flags.StringVar(&anchor, "anchor", "", "`position:hash` that the chain must pass through")
			flags.BoolVar(&alone, "alone", false, "follow the chain only; do not compare with the ledger")
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			check := auditCheck{now: time.Now(), alone: alone}
			if err := check.setAnchor(anchor); err != nil {
				return usageError{err}
			}
			transport, err := at.connect(c.stderr)
			if err != nil {
				return err
			}
			defer transport.Close()
			report, err := check.run(c.ctx, transport)
			if err != nil {
				return err
			}
			return out.print(c.stdout, report, report.print)
		},
	}
}

func auditListCommand() *command {
	var out output
	var at natsAddress
	var ask string
	return &command{
		name: "audit list", args: "[-ask ID] [-nats URLS] [-json | -t TEMPLATE]",
		synopsis: "List what was decided and done",
		help:     "Prints a line for each entry of the audit, oldest first: of all asks, or of the one whose ID begins as -ask says.",
		define: func(flags *flag.FlagSet) {
			out.define(flags)
			at.define(flags)
			flags.StringVar(&ask, "ask", "", "request or allocation `ID`, or its beginning")
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			transport, err := at.connect(c.stderr)
			if err != nil {
				return err
			}
			defer transport.Close()
			records := []psg.AuditRecord{}
			err = transport.Audit().Read(c.ctx, func(_ uint64, _ []byte, r psg.AuditRecord) error {
				if r.Entries = entriesOf(r.Entries, ask); len(r.Entries) > 0 {
					records = append(records, r)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return out.print(c.stdout, records, func(w io.Writer) error { return listAudit(w, records) })
		},
	}
}

func entriesOf(entries []psg.AuditEntry, ask string) []psg.AuditEntry {
	if ask == "" {
		return entries
	}
	var kept []psg.AuditEntry
	for _, e := range entries {
		if e.Ask != "" && strings.HasPrefix(string(e.Ask), ask) {
			kept = append(kept, e)
		}
	}
	return kept
}

func listAudit(w io.Writer, records []psg.AuditRecord) error {
	p := &printer{w: w}
	p.line("Record\tTime\tWhat\tAsk\tWorkload\tNode\tState\tReason")
	for _, r := range records {
		for _, e := range r.Entries {
			workload := ""
			if e.Workload != (psg.WorkloadID{}) {
				workload = e.Workload.String()
			}
			why := cmp.Or(e.Reason, e.Leader, e.Bundle.Name)
			if len(e.Victims) > 0 {
				why = fmt.Sprintf("in place of %q", e.Victims)
			}
			p.line("%d\t%s\t%s\t%.8s\t%s\t%.8s\t%s\t%s", r.Sequence, r.At.Format(time.RFC3339), e.Kind, e.Ask, workload, e.Node, e.State, why)
		}
	}
	return p.err
}

// auditCheck is one verification.
type auditCheck struct {
	now      time.Time
	alone    bool
	position uint64 // of the anchor; 0 means none
	hash     string
}

// auditReport is what a verification found.
type auditReport struct {
	Records  int    `json:"records"`
	Entries  int    `json:"entries"`
	Position uint64 `json:"position"`
	Sequence uint64 `json:"sequence"` // of the ledger record at the head
	Hash     string `json:"hash"`
	Untold   int    `json:"untold"`  // ledger records of the last minute that are yet to be told
	Foreign  int    `json:"foreign"` // messages in the stream that no controller appended
}

func (r auditReport) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "Records\t%d\nEntries\t%d\nHead\t%d:%s\nLedger record\t%d\nNot told yet\t%d\nPassed over\t%d\n",
		r.Records, r.Entries, r.Position, r.Hash, r.Sequence, r.Untold, r.Foreign)
	return err
}

func (c *auditCheck) setAnchor(text string) error {
	if text == "" {
		return nil
	}
	position, hash, found := strings.Cut(text, ":")
	number, err := strconv.ParseUint(position, 10, 64)
	if sum, wrong := hex.DecodeString(hash); !found || err != nil || number == 0 || wrong != nil || len(sum) != 32 {
		return fmt.Errorf("-anchor %q is not POSITION:HASH with 64 hexadecimal digits", text)
	}
	c.position, c.hash = number, strings.ToLower(hash)
	return nil
}

// run follows the chain, beside the ledger.
func (c *auditCheck) run(ctx context.Context, transport *bus.Bus) (auditReport, error) {
	var report auditReport
	var chain ledger.Chain
	records, stop := c.readLedger(ctx, transport)
	defer stop()
	err := transport.Audit().Read(ctx, func(position uint64, stored []byte, r psg.AuditRecord) error {
		anew := fmt.Errorf("audit record %d is not the one the anchor was taken of: the chain was written anew", position)
		if stored == nil && position == c.position {
			return anew
		}
		if stored == nil {
			report.Foreign++
			return chain.Pass(position)
		}
		if err := chain.Next(position, stored, r); err != nil {
			return err
		}
		report.Position = position
		if position == c.position && hex.EncodeToString(chain.Hash) != c.hash {
			return anew
		}
		report.Records++
		report.Entries += len(r.Entries)
		return records.tells(position, r)
	})
	if err == nil && c.position > report.Position {
		err = fmt.Errorf("the audit ends at record %d, before the anchor's %d: records are missing", report.Position, c.position)
	}
	if err == nil {
		report.Untold, err = records.rest(c.now)
	}
	report.Sequence, report.Hash = chain.Sequence, hex.EncodeToString(chain.Hash)
	return report, err
}

// readLedger has the ledger's records read as they are asked for.
func (c *auditCheck) readLedger(ctx context.Context, transport *bus.Bus) (records *auditedLedger, stop func()) {
	records = &auditedLedger{alone: c.alone, records: make(chan psg.Record, 64), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	read := func() {
		defer close(records.records)
		records.ended <- transport.Ledger().Replay(ctx, 0, func(r psg.Record) error {
			select {
			case records.records <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	records.open = sync.OnceFunc(func() { reading.Go(read) })
	return records, func() { cancel(); reading.Wait() }
}

// auditedLedger is the ledger's records, in order, as they are compared. It is opened
// after the audit, of which all that it tells is then in the ledger, however fast both
// grow meanwhile.
type auditedLedger struct {
	alone   bool // nothing is compared
	open    func()
	records chan psg.Record
	ended   chan error // buffered: told once, before records is closed
}

// tells checks that an audit record is what its ledger record gives, and that
// those before have been told.
func (l *auditedLedger) tells(position uint64, a psg.AuditRecord) error {
	if l.alone {
		return nil
	}
	l.open()
	for r := range l.records {
		switch {
		case r.Sequence == a.Sequence:
			if err := ledger.Tells(a, r); err != nil {
				return fmt.Errorf("audit record %d of ledger record %d: %w", position, a.Sequence, err)
			}
			return nil
		case len(ledger.Audit(r)) > 0:
			return fmt.Errorf("ledger record %d is missing: audit record %d tells of %d", r.Sequence, position, a.Sequence)
		}
	}
	return errors.Join(fmt.Errorf("audit record %d tells of ledger record %d, which is not there", position, a.Sequence), <-l.ended)
}

// rest counts the ledger records after the audit's last that have something to
// tell. Only those of the last minute may.
func (l *auditedLedger) rest(now time.Time) (untold int, err error) {
	if l.alone {
		return 0, nil
	}
	l.open()
	for r := range l.records {
		if len(ledger.Audit(r)) == 0 {
			continue
		}
		if now.Sub(r.At) > time.Minute {
			return untold, fmt.Errorf("ledger record %d of %s is missing: the audit ends before it", r.Sequence, r.At.Format(time.RFC3339))
		}
		untold++
	}
	return untold, <-l.ended
}
