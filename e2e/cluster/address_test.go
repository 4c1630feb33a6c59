package cluster

import (
	"net"
	"slices"
	"testing"
)

// TestFreeAddresses_AreTheCallersAlone takes a third of all there are, listens on
// each twice over, as a server that is killed and started again does, and gets no
// address a second time.
func TestFreeAddresses_AreTheCallersAlone(t *testing.T) {
	var all []string
	for range 30 {
		addresses, err := FreeAddresses(100)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, addresses...)
	}
	for _, at := range slices.Concat(all[:200], all[:200]) {
		server, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Sort(all); len(slices.Compact(all)) != 3000 {
		t.Error("an address was given twice")
	}
}

func TestFreeAddresses_RefusesWhatIsNoAddress(t *testing.T) {
	for _, host := range []string{"", "localhost", "::1", "127.0.0.1:1"} {
		if addresses, err := FreeAddressesOn(host, 1); err == nil {
			t.Errorf("%q: %v", host, addresses)
		}
	}
}
