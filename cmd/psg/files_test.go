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

// TestRun_NamesTheFileThatIsNoCredential gives each command that serves, or that
// speaks to the bus, a file that holds nothing of what it should: it ends at once
// and names the file, whatever it would have spoken to.
func TestRun_NamesTheFileThatIsNoCredential(t *testing.T) {
	bundle, err := filepath.Abs(filepath.Join("..", "..", "e2e", "nomad", "testdata", "classes"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	garbage, missing, empty := file("garbage", "\x00\xff no key \x01\n"), filepath.Join(dir, "missing"), file("empty", "")
	data := []string{"controller", "-data-dir", filepath.Join(dir, "data"), "-bundle", bundle, "-grpc", "127.0.0.1:0", "-http", "127.0.0.1:0", "-nats-listen", "127.0.0.1:0"}
	away := []string{"controller", "-nats", "nats://127.0.0.1:1", "-bundle", bundle, "-grpc", "127.0.0.1:0", "-http", "127.0.0.1:0"}
	proxy := []string{"shim", "proxy", "-listen", "127.0.0.1:0"}
	audit := []string{"audit", "list", "-nats", "nats://127.0.0.1:1"}
	for _, one := range []struct {
		flag    string
		command []string
		env     string // names the file instead of a flag
		with    []string
	}{
		{"-nats-creds", away, "", nil},
		{"-nats-tls-ca", away, "", nil},
		{"-nats-tls-cert", away, "", []string{"-nats-tls-key", garbage}},
		{"-nats-tls-key", away, "", []string{"-nats-tls-cert", garbage}},
		{"-nats-tls-cert", data, "", []string{"-nats-tls-key", garbage}},
		{"-nats-issuer", data, "", nil},
		{"-tls-cert", data, "", []string{"-tls-key", garbage}},
		{"-tls-key", data, "", []string{"-tls-cert", garbage}},
		{"-token-file", data, "", nil},
		{"-policy-key", data, "", nil},
		{"-nomad-token-file", data, "", nil},
		{"", data, "NOMAD_CACERT", nil},
		{"-tls-cert", proxy, "", []string{"-tls-key", garbage}},
		{"", proxy, "PSG_TOKEN_FILE", nil},
		{"", proxy, "NOMAD_CACERT", nil},
		{"-nats-creds", audit, "", nil},
		{"-nats-tls-ca", audit, "", nil},
	} {
		for _, bad := range []string{garbage, missing, empty} {
			if one.flag == "-nats-issuer" && bad == missing {
				continue // it is made
			}
			args := one.command
			if one.flag != "" {
				args = append(args[:len(args):len(args)], append([]string{one.flag, bad}, one.with...)...)
			}
			t.Run(strings.Join(one.command[:1], " ")+" "+one.flag+one.env+" "+filepath.Base(bad), func(t *testing.T) {
				if one.env != "" {
					t.Setenv(one.env, bad)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var out, errs bytes.Buffer
				code := run(ctx, args, &out, &errs)
				if code == exitOK || ctx.Err() != nil || !strings.Contains(errs.String(), bad) {
					t.Errorf("exit code %d, %v:\n%s%s; want an error at once that names %s", code, ctx.Err(), &out, &errs, bad)
				}
			})
		}
	}
}
