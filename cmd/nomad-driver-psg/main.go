// Command nomad-driver-psg is the task driver psg as a plugin of Nomad. Nomad's
// client starts it; by hand it only tells its version.
//
//	nomad-driver-psg             serve Nomad (refused without its handshake)
//	nomad-driver-psg executor D  hold the command of task directory D; started by the plugin itself
//	nomad-driver-psg -version    print the version
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/driver/plugin"
	"github.com/psgrid/psg/hclspec"
	"github.com/psgrid/psg/rpc"
)

// version is set by the linker in releases.
var version = "0.1.0-dev"

// garbagePercent keeps the heap of a process that runs on every node, and once
// more beside every command, close to what it uses.
const garbagePercent = 20

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	debug.SetGCPercent(garbagePercent)
	switch {
	case len(args) == 0:
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own binary: %w", err)
		}
		return plugin.Serve(version, []string{self, "executor"}, dial, plugin.NewLogger())
	case len(args) == 2 && args[0] == "executor":
		return executor.Main(args[1], stdin)
	case len(args) == 1 && (args[0] == "-version" || args[0] == "--version"):
		_, err := fmt.Fprintln(stdout, "nomad-driver-psg", version)
		return err
	}
	return errors.New("usage: nomad-driver-psg [-version]; Nomad starts it without arguments")
}

// dial makes the client of the controllers that the plugin's config names.
func dial(config hclspec.Plugin) (driver.Placer, error) {
	security, err := tlsConfig(config.TLS)
	if err != nil {
		return nil, err
	}
	token, err := rpc.ReadToken(config.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	client, err := rpc.Dial(config.Controllers, security)
	if err != nil {
		return nil, err
	}
	return client.Bearer(token), nil
}

// tlsConfig reads the files of a tls block; nil stays nil.
func tlsConfig(block *hclspec.TLS) (*tls.Config, error) {
	if block == nil {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: block.ServerName}
	if block.CA != "" {
		authorities, err := os.ReadFile(block.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("tls.ca: %s holds no certificate", block.CA)
		}
	}
	if block.Cert != "" {
		pair, err := tls.LoadX509KeyPair(block.Cert, block.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert %s with tls.key %s: %w", block.Cert, block.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
