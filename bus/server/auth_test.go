package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/psgrid/psg/bus/credentials"
)

// certificates returns the TLS of a server on loopback and of those who trust it.
func certificates(t *testing.T) (serving, trusting *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	serving = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	return serving, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

// auth admits everybody who proves to be anybody, and tells who does not.
func auth(t *testing.T, refused chan error) *Auth {
	t.Helper()
	issuer, err := credentials.OpenOrCreate(filepath.Join(t.TempDir(), "issuer.nk"))
	if err != nil {
		t.Fatal(err)
	}
	return &Auth{
		Issuer: issuer, InProcess: "self",
		Permissions: func(string) (publish, denied, subscribe []string, err error) { return nil, nil, nil, nil },
		Refused: func(_ net.Addr, err error) {
			t.Log(err)
			select {
			case refused <- err:
			default:
			}
		},
	}
}

func started(t *testing.T, config Config) *Server {
	t.Helper()
	config.Dir = t.TempDir()
	running, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Close)
	return running
}

func TestStart_OverTLSTakesTheProcessItselfAndWhoHasACertificate(t *testing.T) {
	serving, trusting := certificates(t)
	running := started(t, Config{Listen: "127.0.0.1:0", TLS: serving, Auth: auth(t, make(chan error, 1))})
	inside, err := nats.Connect("", nats.InProcessServer(running))
	if err != nil {
		t.Fatalf("the process itself: %v", err)
	}
	inside.Close()
	file, err := running.auth.Issuer.Issue("n", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	shown := func(o *nats.Options) error {
		token, err := nkeys.ParseDecoratedJWT(file)
		return errors.Join(err, nats.UserCredentialBytes(file)(o), nats.Token(token)(o))
	}
	outside, err := nats.Connect(running.ClientURL(), shown, nats.Secure(trusting))
	if err != nil {
		t.Fatalf("with a certificate: %v", err)
	}
	outside.Close()
	bare := trusting.Clone()
	bare.Certificates = nil
	if conn, err := nats.Connect(running.ClientURL(), shown, nats.Secure(bare)); err == nil {
		conn.Close()
		t.Error("connected without a certificate")
	}
	if conn, err := nats.Connect(running.ClientURL(), nats.Secure(trusting)); err == nil {
		conn.Close()
		t.Error("connected without credentials")
	}
}

// TestStart_Cluster joins servers of one issuer, over TLS, and leaves one of
// another out.
func TestStart_ClusterProvesItself(t *testing.T) {
	serving, _ := certificates(t)
	refused := make(chan error, 64)
	ours, theirs := auth(t, refused), auth(t, make(chan error, 1))
	first := freeAddress(t)
	join := func(name, listen string, auth *Auth) *Server {
		return started(t, Config{Listen: "127.0.0.1:0", Auth: auth, Cluster: Cluster{Name: name, Listen: listen, Routes: []string{first}, Shared: true, TLS: serving}})
	}
	a := join("a", first, ours)
	join("b", freeAddress(t), ours)
	poll(t, "two servers of one issuer join", func() bool { return a.nats.NumRemotes() == 1 })
	c := join("c", freeAddress(t), theirs)
	poll(t, "a server of another issuer is refused", func() bool { return len(refused) > 0 })
	if a.nats.NumRemotes() != 1 || c.nats.NumRemotes() != 0 {
		t.Errorf("%d and %d remote servers, want 1 and 0", a.nats.NumRemotes(), c.nats.NumRemotes())
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); !done(); {
		select {
		case <-deadline:
			t.Fatal("not within 20 s: " + what)
		case <-tick.C:
		}
	}
}
