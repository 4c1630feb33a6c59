package bus

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// ClientTLS reads the PEM files of TLS towards a bus: its authorities, and a
// certificate with its key to show. Without any of them it returns nil: TLS then
// is what the bus's URLs say.
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if ca != "" {
		authorities, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("TLS authorities of the bus: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("TLS authorities of the bus: %s holds no PEM certificate", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("TLS certificate for the bus, %s with key %s: %w", named(cert), named(key), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// named is a file, or that there is none.
func named(file string) string {
	if file == "" {
		return "no file"
	}
	return file
}
