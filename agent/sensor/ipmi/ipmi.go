// Package ipmi measures what a node's baseboard management controller knows:
// temperatures, fans, power, voltages and currents, by IPMI, through the kernel's
// device or the network. It is a source of package agent, and only reads.
// cmd/psg-agent makes it where it is asked to.
package ipmi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/psgrid/psg/agent"
)

// Local is the address of the node's own controller, behind /dev/ipmi0.
const Local = "local"

// Config says which controller is asked. Zero values mean the defaults.
type Config struct {
	Address        string        // Local, or HOST[:PORT] to which IPMI 2.0 (RMCP+) goes; required
	User, Password string        // of an operator there; not for Local
	Every          time.Duration // between measurements; default 30 s, as a controller is slow
	Timeout        time.Duration // of one command; default 2 s
}

func (c Config) withDefaults() Config {
	if c.Every == 0 {
		c.Every = 30 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	return c
}

const rmcpPort = 623

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Address == "":
		return errors.New("ipmi: no address")
	case c.Address == Local:
		return nil
	case c.User == "":
		return fmt.Errorf("ipmi: no user for %s", c.Address)
	}
	_, _, err := c.split()
	return err
}

func (c Config) split() (host string, port int, err error) {
	if !strings.Contains(c.Address, ":") {
		return c.Address, rmcpPort, nil
	}
	host, text, err := net.SplitHostPort(c.Address)
	if err != nil {
		return "", 0, fmt.Errorf("ipmi: %w", err)
	}
	if port, err = strconv.Atoi(text); err != nil || host == "" || port < 1 || port > math.MaxUint16 {
		return "", 0, fmt.Errorf("ipmi: %q is not HOST:PORT", c.Address)
	}
	return host, port, nil
}

// Source is one controller, as an agent.Source. It is for one goroutine.
type Source struct {
	config  Config
	sensors []sensor // empty until they are listed
}

// sensor is one that gives numbers of a unit that is known.
type sensor struct {
	*types.Sensor
	metric string
}

// New returns the source that config says.
func New(config Config) (*Source, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Source{config: config.withDefaults()}, nil
}

// Name is "ipmi".
func (s *Source) Name() string { return "ipmi" }

// Every is the time between measurements.
func (s *Source) Every() time.Duration { return s.config.Every }

// Measure asks the controller for each sensor. The first time it lists them,
// which may take a minute, and again after a failure. A sensor that has nothing to
// tell now is left out. No session stays open.
func (s *Source) Measure(ctx context.Context, put agent.Put) error {
	controller, err := s.client()
	if err != nil {
		return err
	}
	if err := controller.Connect(ctx); err != nil {
		return fmt.Errorf("connect to %s: %w", s.config.Address, err)
	}
	defer func() { _ = controller.Close(context.WithoutCancel(ctx)) }() // what was read, was read
	if len(s.sensors) == 0 {
		if s.sensors, err = list(ctx, controller); err != nil {
			return err
		}
	}
	answered := false
	for _, sensor := range s.sensors {
		value, ok, err := read(ctx, controller, sensor)
		if err != nil {
			s.sensors = nil
			return fmt.Errorf("read sensor %q: %w", sensor.Name, err)
		}
		if ok {
			answered = true
			put("", sensor.metric, value)
		}
	}
	if !answered {
		s.sensors = nil
		return errors.New("no sensor tells a temperature, speed, power, voltage or current")
	}
	return nil
}

func (s *Source) client() (*client.Client, error) {
	if s.config.Address == Local {
		controller, err := client.NewOpenClient()
		if err != nil {
			return nil, err
		}
		return controller.WithTimeout(s.config.Timeout), nil
	}
	host, port, err := s.config.split()
	if err != nil {
		return nil, err
	}
	controller, err := client.NewClient(host, port, s.config.User, s.config.Password)
	if err != nil {
		return nil, err
	}
	return controller.WithInterface(client.InterfaceLanplus).WithTimeout(s.config.Timeout).WithRetry(1).
		WithMaxPrivilegeLevel(types.PrivilegeLevelUser), nil
}

// maxSensors bounds what one controller can make the agent hold.
const maxSensors = 256

func list(ctx context.Context, controller *client.Client) ([]sensor, error) {
	all, err := controller.GetSensors(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sensors: %w", err)
	}
	var sensors []sensor
	taken := map[string]int{}
	for _, found := range all {
		unit := unitOf(found)
		if unit == "" || len(sensors) == maxSensors {
			continue
		}
		metric := "ipmi/" + word(found.Name) + "/" + unit
		if taken[metric]++; taken[metric] > 1 {
			metric = fmt.Sprintf("ipmi/%s-%d/%s", word(found.Name), taken[metric], unit)
		}
		sensors = append(sensors, sensor{found, metric})
	}
	return sensors, nil
}

// unitOf is what a sensor's metric ends in, empty where it is not taken.
func unitOf(s *types.Sensor) string {
	if !s.HasAnalogReading || !s.SensorUnit.IsAnalog() || s.SensorUnit.Percentage || s.SensorUnit.ModifierRelation != 0 {
		return ""
	}
	switch s.SensorUnit.BaseUnit {
	case types.SensorUnitType_DegreesC:
		return "temperature_celsius"
	case types.SensorUnitType_RPM:
		return "fan_rpm"
	case types.SensorUnitType_Watts:
		return "power_watts"
	case types.SensorUnitType_Volts:
		return "volts"
	case types.SensorUnitType_Amps:
		return "amperes"
	}
	return ""
}

// read asks for one sensor; ok is false while it has nothing to tell.
func read(ctx context.Context, controller *client.Client, s sensor) (value float64, ok bool, err error) {
	var to client.CommandContext
	to.WithResponderAddr(uint8(s.GeneratorID.OwnerID())).WithResponderLUN(uint8(s.GeneratorID.LUN()))
	answer, err := controller.GetSensorReading(client.WithCommandContext(ctx, &to), s.Number)
	var code *types.ResponseError
	switch {
	case errors.As(err, &code):
		return 0, false, nil // the controller refuses: the sensor is not there now
	case err != nil:
		return 0, false, err
	case answer.SensorScanningDisabled || answer.ReadingUnavailable:
		return 0, false, nil
	}
	return s.ConvertReading(answer.Reading), true, nil
}

// word makes a part of a metric's name of a sensor's: "CPU1 Temp" becomes
// "cpu1_temp".
func word(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, strings.TrimSpace(strings.TrimRight(name, "\x00")))
}
