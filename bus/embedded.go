package bus

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// startServer runs a NATS server in this process. It syncs every append to
// disk before it acknowledges it: what the ledger says is durable must be.
func startServer(config Config) (*server.Server, error) {
	options := &server.Options{
		ServerName:      "psg",
		JetStream:       true,
		StoreDir:        config.Dir,
		SyncAlways:      true,
		MaxPayload:      maxPayload,
		MaxPending:      4 * maxPayload,
		NoSigs:          true,
		NoLog:           true,
		DontListen:      config.Listen == "",
	}
	if config.Listen != "" {
		host, port, err := net.SplitHostPort(config.Listen)
		if err != nil {
			return nil, fmt.Errorf("bus listen address: %w", err)
		}
		number, err := strconv.Atoi(port)
		if err != nil || number < 0 || number > 65535 {
			return nil, fmt.Errorf("bus listen address %q: port %q is not a number in 0..65535", config.Listen, port)
		}
		if number == 0 {
			number = server.RANDOM_PORT
		}
		options.Host, options.Port = host, number
	}
	embedded, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("embedded bus in %s: %w", config.Dir, err)
	}
	go embedded.Start() // ends with Shutdown, which Close waits for
	if !embedded.ReadyForConnections(readyTimeout) {
		embedded.Shutdown()
		return nil, fmt.Errorf("embedded bus in %s is not ready after %s: is the directory in use, or the address %q taken?",
			config.Dir, readyTimeout, config.Listen)
	}
	return embedded, nil
}

// lock takes a directory for this process alone: two servers on the same
// streams would corrupt them, and NATS itself does not notice.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create bus directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock bus directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("bus directory %s is in use by another process: %w", dir, err)
	}
	return file, nil
}

func joinURLs(urls []string) string { return strings.Join(urls, ",") }
