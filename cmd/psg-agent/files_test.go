package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRun_NamesTheFileThatIsNoCredential gives each flag for one a file that holds
// nothing of what it should.
func TestRun_NamesTheFileThatIsNoCredential(t *testing.T) {
	dir := t.TempDir()
	garbage, missing := filepath.Join(dir, "garbage"), filepath.Join(dir, "missing")
	if err := os.WriteFile(garbage, []byte("\x00\xff no key \x01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	orders := []string{"-orders-grpc", "127.0.0.1:0"}
	for _, with := range [][]string{
		{"-nats-creds"}, {"-nats-tls-ca"}, {"-nats-tls-cert", garbage, "-nats-tls-key"}, {"-nats-tls-key", garbage, "-nats-tls-cert"},
		append(orders, "-orders-token"), append(orders, "-orders-tls-cert", garbage, "-orders-tls-key"), append(orders, "-orders-tls-key", garbage, "-orders-tls-cert"),
		{"-ipmi", "127.0.0.1", "-ipmi-user", "u", "-ipmi-password"},
	} {
		for _, bad := range []string{garbage, missing} {
			flag := with[len(with)-1]
			if flag == "-ipmi-password" && bad == garbage {
				continue // any line may be a password
			}
			t.Run(flag+" "+filepath.Base(bad), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				args := append([]string{"-node", "n1", "-state-dir", t.TempDir(), "-metrics", "", "-nats", "nats://127.0.0.1:1"}, append(with, bad)...)
				var out, errs bytes.Buffer
				if code := run(ctx, args, &out, &errs); code == exitOK || ctx.Err() != nil || !strings.Contains(errs.String(), bad) {
					t.Errorf("exit code %d, %v:\n%s%s; want an error at once that names %s", code, ctx.Err(), &out, &errs, bad)
				}
			})
		}
	}
}
