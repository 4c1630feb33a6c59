package hclspec_test

import (
	"strings"
	"testing"

	"github.com/psgrid/psg/hclspec"
)

func TestDecodeStanza_SaysWhatIsWrongWithAProbe(t *testing.T) {
	for want, probe := range map[string]string{
		"probe.port: is required":              `{"objective": "5ms"}`,
		"probe.objective: is required":         `{"port": "http"}`,
		"probe.path: must begin with a slash":  `{"port": "http", "objective": "5ms", "path": "health"}`,
		"probe.interval: must be 50ms to 1m0s": `{"port": "http", "objective": "5ms", "interval": "1ms"}`,
		"probe.objective: must be more than 0": `{"port": "http", "objective": "-5ms"}`,
		"probe.prot: unknown field":            `{"prot": "http", "port": "http", "objective": "5ms"}`,
	} {
		_, err := hclspec.DecodeStanza(object(t, `{"probe": [`+probe+`]}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", probe, err, want)
		}
	}
}
