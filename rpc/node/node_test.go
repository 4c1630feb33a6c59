package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
)

const token = "0123456789abcdef0123456789abcdef"

// carrier answers each order with a report of it.
type carrier struct{ got chan psg.Order }

func (c carrier) CarryOut(o psg.Order) psg.Report {
	c.got <- o
	return psg.Report{Node: o.Node, Kind: o.Kind, Epoch: o.Epoch, Sequence: o.Sequence, Alloc: o.Alloc, State: psg.ReportDone, At: time.Unix(9, 0).UTC()}
}

func serve(t *testing.T, config Config) (address string, got chan psg.Order) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := carrier{make(chan psg.Order, 8)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, c, config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String(), c.got
}

func give(t *testing.T, address, token string, config *tls.Config, order psg.Order) (psg.Report, error) {
	t.Helper()
	client, err := Dial(address, token, config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return client.CarryOut(ctx, order)
}

var order = psg.Order{Kind: psg.Freeze, Epoch: 4, Sequence: 2, Node: "n1", Alloc: "a", Deadline: time.Minute}

func TestServe_TakesOrdersWithTheTokenAlone(t *testing.T) {
	address, got := serve(t, Config{Token: token})
	r, err := give(t, address, token, nil, order)
	if err != nil || r.Sequence != 2 || r.State != psg.ReportDone {
		t.Errorf("report %+v, %v", r, err)
	}
	if o := <-got; o.Alloc != order.Alloc || o.Deadline != order.Deadline {
		t.Errorf("carried out %+v", o)
	}
	for _, wrong := range []string{"", "x", token + "0", strings.ToUpper(token)} {
		if _, err := give(t, address, wrong, nil, order); status.Code(errors.Unwrap(err)) != codes.Unauthenticated {
			t.Errorf("token %q: %v", wrong, err)
		}
	}
	if len(got) > 0 {
		t.Error("an order without the token was carried out")
	}
}

func TestServe_RefusesGarbage(t *testing.T) {
	address, got := serve(t, Config{Token: token})
	bad := order
	bad.Limit[psg.CPU] = -1
	if _, err := give(t, address, token, nil, bad); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("a limit below zero: %v", err)
	}
	if len(got) > 0 {
		t.Error("garbage was carried out")
	}
}

func TestServe_RefusesToBeOpen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := Serve(t.Context(), listener, carrier{}, Config{}); err == nil || !strings.Contains(err.Error(), "anybody could give orders") {
		t.Errorf("neither token nor authority: %v", err)
	}
	if err := Serve(t.Context(), listener, carrier{}, Config{TLS: &tls.Config{}}); err == nil {
		t.Error("TLS that asks for no certificate is taken for authentication")
	}
	everywhere := &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	if err := (Config{Token: token}).Validate(everywhere); err == nil || !strings.Contains(err.Error(), "in the clear") {
		t.Errorf("a token on the network without TLS: %v", err)
	}
}

// certificate makes a self-signed one, which is its own authority.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestServe_TakesOrdersFromItsAuthoritysClientsAlone(t *testing.T) {
	own, pool := certificate(t)
	foreign, _ := certificate(t)
	address, got := serve(t, Config{TLS: &tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}})
	client := func(certificates ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS13}
	}
	if r, err := give(t, address, "", client(own), order); err != nil || r.State != psg.ReportDone {
		t.Errorf("report %+v, %v", r, err)
	}
	<-got
	for name, config := range map[string]*tls.Config{"none": client(), "foreign": client(foreign)} {
		if r, err := give(t, address, "", config, order); err == nil {
			t.Errorf("certificate %s: %+v", name, r)
		}
	}
	if len(got) > 0 {
		t.Error("an order without a certificate was carried out")
	}
}

func TestReadToken_FromAFileThatOthersCannotRead(t *testing.T) {
	file := func(content string, mode os.FileMode) string {
		name := filepath.Join(t.TempDir(), "token")
		if err := errors.Join(os.WriteFile(name, []byte(content), 0o600), os.Chmod(name, mode)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if got, err := ReadToken(file(token+"\n", 0o600)); err != nil || got != token {
		t.Errorf("token %q, %v", got, err)
	}
	for want, name := range map[string]string{
		"others can read it": file(token, 0o644),
		"fewer than 32":      file("short", 0o600),
		"more than one":      file(token+" "+token, 0o600),
		"no such file":       filepath.Join(t.TempDir(), "none"),
	} {
		if _, err := ReadToken(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
