package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// FreeAddresses returns n addresses on loopback, as FreeAddressesOn does.
func FreeAddresses(n int) ([]string, error) { return FreeAddressesOn("127.0.0.1", n) }

// FreeAddressesOn returns n addresses, host:port, of an IPv4 address of this
// machine. They are the caller's until its process ends: no other call, in this
// process or another, returns one of them, whether or not anything listens there
// yet. Their ports are none that an outgoing connection is given, so that they are
// still free when a killed process starts again, nor any that Nomad gives to tasks.
func FreeAddressesOn(host string, n int) ([]string, error) {
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Is4() {
		return nil, fmt.Errorf("%q is no IPv4 address", host)
	}
	var addresses []string
	for range 1000 {
		if len(addresses) == n {
			return addresses, nil
		}
		if port := 10_000 + rand.IntN(10_000); claim(ip.As4(), port) == nil {
			addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(port)))
		}
	}
	return nil, fmt.Errorf("no %d free ports on %s", n, host)
}

// claim binds a socket to a port, for good and without listening. It fails where
// any other is bound; afterwards it lets a server listen there, which as all of
// Go's asks for SO_REUSEADDR.
func claim(ip [4]byte, port int) error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: ip, Port: port}); err == nil {
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		_ = syscall.Close(socket)
	}
	return err
}
