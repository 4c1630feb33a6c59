package main

import (
	"crypto/tls"
	"net"
)

// warnExposed says which of a controller's faces somebody on the network could
// use without showing who they are, or listen in on.
func (c serveConfig) warnExposed(grpc, http net.Addr) {
	if beyondLoopback(grpc.String()) {
		c.warnOfGRPC(grpc)
	}
	if beyondLoopback(http.String()) && c.tokens == nil {
		c.log.Warn("REST face is open to the network without TLS or authentication: whoever reaches it may read everything, plan registrations and move work; set -token-file, and put a proxy with TLS before it",
			"http", http)
	} else if beyondLoopback(http.String()) {
		c.log.Warn("REST face is open to the network without TLS: whoever is in between may read tokens; put a proxy with TLS before it",
			"http", http)
	}
	if len(c.natsURLs) == 0 && c.natsListen != "" && c.guard.tls.cert == "" && beyondLoopback(c.natsListen) {
		c.log.Warn("embedded NATS server is open to the network without TLS: it asks for credentials, but whoever is in between may read and change what passes; set -nats-tls-cert and -nats-tls-key",
			"nats", c.natsListen)
	}
	if c.cluster.Listen != "" && beyondLoopback(c.cluster.Listen) && (c.guard.issuer == "" || c.guard.tls.ca == "") {
		c.log.Warn("embedded NATS cluster is open to the network without authentication or TLS: whoever reaches it may write the ledger; set -nats-issuer, -nats-tls-cert, -nats-tls-key and -nats-tls-ca",
			"nats-cluster", c.cluster.Listen)
	}
}

func (c serveConfig) warnOfGRPC(grpc net.Addr) {
	switch {
	case c.tls != nil && c.tls.ClientAuth == tls.RequireAndVerifyClientCert:
	case c.tokens == nil:
		c.log.Warn("gRPC face is open to the network without tokens or client certificates: whoever reaches it may place, reserve and move; set -token-file, or -tls-cert, -tls-key and -tls-ca",
			"grpc", grpc)
	case c.tls == nil:
		c.log.Warn("gRPC face is open to the network without TLS: whoever is in between may read tokens; set -tls-cert and -tls-key",
			"grpc", grpc)
	}
}

// beyondLoopback reports whether other machines can reach an address. One that
// is no IP address may be anywhere.
func beyondLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host == "localhost" {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}
