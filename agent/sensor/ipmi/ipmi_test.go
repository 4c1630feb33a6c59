package ipmi

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport/udp"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/psgrid/psg"
)

// controller is the library's simulation of a BMC, on loopback, with the one
// command that it lacks: Get Sensor Reading (IPMI 2.0, 35.14).
type controller struct {
	address string
	mu      sync.Mutex
	raw     map[uint8]uint8 // by sensor; one that is not there does not answer
}

const user, password = "operator", "secret"

func (c *controller) reading(_ context.Context, _ *handlers.HandlerContext, request []byte) ([]byte, types.CompletionCode, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, ok := c.raw[request[0]]
	if !ok {
		return nil, types.CodeRequestedDataNotPresent, nil
	}
	const scanning, unavailable = 0x40, 0x20
	state := byte(scanning)
	if raw == 0xff {
		state |= unavailable
	}
	return []byte{raw, state, 0xc0, 0}, types.CodeOK, nil
}

func (c *controller) set(number, raw uint8) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw[number] = raw
}

// full is the record of a sensor whose value is (m*raw + b) * 10^exponent.
func full(number uint8, name string, unit types.SensorUnitType, m, b int16, exponent int8) []byte {
	record := types.SDRFull{
		GeneratorID: 0x20, SensorNumber: types.SensorNumber(number), SensorEntityID: 7,
		SensorType: types.SensorTypeTemperature, SensorEventReadingType: types.EventReadingTypeThreshold,
		SensorUnit:         types.SensorUnit{BaseUnit: unit},
		ReadingFactors:     types.ReadingFactors{M: m, B: b, R_Exp: exponent},
		IDStringTypeLength: types.TypeLength(0xC0 | len(name)), IDStringBytes: []byte(name),
	}
	return record.Pack(uint16(number))
}

func newController(t *testing.T) *controller {
	t.Helper()
	c := &controller{raw: map[uint8]uint8{1: 30, 2: 100, 3: 50, 4: 120, 5: 12, 6: 200, 7: 31}}
	board := mock.New()
	for number, record := range [][]byte{
		1: full(1, "CPU1 Temp", types.SensorUnitType_DegreesC, 1, 10, 0),
		2: full(2, "FAN 1", types.SensorUnitType_RPM, 60, 0, 0),
		3: full(3, "PSU/In", types.SensorUnitType_Watts, 4, 0, 0),
		4: full(4, "12V", types.SensorUnitType_Volts, 10, 0, -2),
		5: full(5, "PSU I", types.SensorUnitType_Amps, 1, 0, -1),
		6: full(6, "Door", types.SensorUnitType(40), 1, 0, 0), // bits: not taken
		7: full(7, "CPU1 Temp", types.SensorUnitType_DegreesC, 1, 0, 0),
		8: full(8, "Absent Temp", types.SensorUnitType_DegreesC, 1, 0, 0),
	} {
		if record == nil {
			continue
		}
		if err := board.Storage().SDR().Write(t.Context(), uint16(number), record); err != nil {
			t.Fatal(err)
		}
	}
	b := bmc.New(bmc.DeviceInfo{DeviceID: 32, IPMIVersion: 0x20, AdditionalDeviceSupport: 0x39}, [16]byte{1}, board, bmc.WithClock(clock.Real))
	account, err := b.Users.Add(2, user)
	if err != nil {
		t.Fatal(err)
	}
	account.SetPassword([]byte(password))
	account.Enabled = true
	account.ChannelAccess[1] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelOperator, Enabled: true}
	registry := handlers.NewRegistry()
	handlers.RegisterAllHandlers(registry)
	registry.RegisterFunc(types.CommandGetSensorReading, c.reading)
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	c.address = socket.LocalAddr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.NewServer(b, udp.Wrap(socket), server.WithHandlerRegistry(registry)).Serve(ctx) // ends with the test
	}()
	t.Cleanup(func() {
		cancel()
		_ = socket.Close()
		<-ended
	})
	return c
}

func (c *controller) source(t *testing.T, password string) *Source {
	t.Helper()
	s, err := New(Config{Address: c.address, User: user, Password: password, Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func measure(t *testing.T, s *Source) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	if err := s.Measure(t.Context(), func(_ psg.AllocID, metric string, value float64) { got[metric] = value }); err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for _, name := range append(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))...) {
		v, ok := got[name]
		if w, wanted := want[name]; ok != wanted || math.Abs(v-w) > 1e-6 {
			t.Errorf("%s is %v (%v), want %v (%v)", name, v, ok, w, wanted)
		}
	}
}

func TestMeasure_ReadsEachSensor(t *testing.T) {
	c := newController(t)
	s := c.source(t, password)
	want := map[string]float64{
		"ipmi/cpu1_temp/temperature_celsius": 40, "ipmi/cpu1_temp-2/temperature_celsius": 31,
		"ipmi/fan_1/fan_rpm": 6000, "ipmi/psu_in/power_watts": 200, "ipmi/12v/volts": 12, "ipmi/psu_i/amperes": 1.2,
	}
	same(t, measure(t, s), want)
	c.set(1, 45)
	c.set(8, 20)   // it is there now
	c.set(2, 0xff) // it has nothing to tell
	want["ipmi/cpu1_temp/temperature_celsius"], want["ipmi/absent_temp/temperature_celsius"] = 55, 20
	delete(want, "ipmi/fan_1/fan_rpm")
	same(t, measure(t, s), want)
}

func TestMeasure_FailsWhereItIsNotLetIn(t *testing.T) {
	c := newController(t)
	put := func(_ psg.AllocID, metric string, _ float64) { t.Errorf("put %s", metric) }
	if err := c.source(t, "wrong").Measure(t.Context(), put); err == nil || !strings.Contains(err.Error(), "connect to "+c.address) {
		t.Errorf("with a wrong password: %v", err)
	}
	s, err := New(Config{Address: Local})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/ipmi0"); err == nil {
		t.Skip("SKIPPED: this machine has a controller")
	}
	if err := s.Measure(t.Context(), put); err == nil || !strings.Contains(err.Error(), "connect to local") {
		t.Errorf("without a device: %v", err)
	}
}

func TestNew_RefusesWhatIsNoAddress(t *testing.T) {
	for _, config := range []Config{{}, {Address: "10.0.0.1"}, {Address: "a:b:c", User: "u"}, {Address: "a:0", User: "u"}, {Address: ":623", User: "u"}, {Address: "a:x", User: "u"}} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v is taken", config)
		}
	}
	for address, want := range map[string]string{"bmc": "bmc 623", "bmc:6230": "bmc 6230", "[::1]:623": "::1 623"} {
		if host, port, err := (Config{Address: address}).split(); err != nil || fmt.Sprint(host, " ", port) != want {
			t.Errorf("%s is %s %d, %v", address, host, port, err)
		}
	}
}

// docs/agent.md names every metric.
func TestDoc_ListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`/.*/`)
	c := newController(t)
	for metric := range measure(t, c.source(t, password)) {
		if metric = name.ReplaceAllString(metric, "/NAME/"); !strings.Contains(string(text), "`"+metric+"`") {
			t.Errorf("docs/agent.md does not name %s", metric)
		}
	}
}
