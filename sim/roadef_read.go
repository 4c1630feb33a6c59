package sim

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/psgrid/psg/placement/search"
)

// read reads the model and the initial assignment.
func (r Roadef) read() (search.Problem, error) {
	var p search.Problem
	if err := eachNumber(r.Model, func(in *numbers) { p = readRoadef(in) }); err != nil {
		return p, err
	}
	return p, eachNumber(r.Assignment, func(in *numbers) {
		p.Initial = make([]int, len(p.Items))
		for i := range p.Initial {
			p.Initial[i] = in.index("machine", len(p.Nodes))
		}
	})
}

// readRoadef reads a model: machines are nodes, services groups, processes
// items.
func readRoadef(in *numbers) search.Problem {
	var p search.Problem
	for range in.count("number of resources") {
		p.Resources = append(p.Resources, search.Resource{Transient: in.index("transient", 2) == 1, Weight: in.amount("load weight")})
	}
	machines := in.count("number of machines")
	for range machines {
		p.Nodes = append(p.Nodes, search.Node{
			Hood: in.index("neighbourhood", machines), Location: in.index("location", machines),
			Capacity: in.row("capacity", len(p.Resources)), Safe: in.row("safety capacity", len(p.Resources)),
			MoveCost: in.row("machine move cost", machines),
		})
		if in.err != nil {
			return p
		}
	}
	services := in.count("number of services")
	for range services {
		g := search.Group{Apart: true, MinLocations: in.count("spread")}
		for range in.count("number of dependencies") {
			g.Near = append(g.Near, in.index("dependency", services))
		}
		p.Groups = append(p.Groups, g)
	}
	for range in.count("number of processes") {
		p.Items = append(p.Items, search.Item{
			Group: in.index("service", services), Need: in.row("requirement", len(p.Resources)), MoveCost: in.amount("process move cost"),
		})
		if in.err != nil {
			return p
		}
	}
	for range in.count("number of balance costs") {
		p.Balances = append(p.Balances, search.Balance{
			First: in.index("balance resource", len(p.Resources)), Second: in.index("balance resource", len(p.Resources)),
			Target: in.amount("balance target"), Weight: in.amount("balance weight"),
		})
	}
	p.Weights = search.Weights{Item: in.amount("process move weight"), Group: in.amount("service move weight"), Node: in.amount("machine move weight")}
	return p
}

// numbers reads whitespace-separated integers and remembers the first error.
// After one it gives zeros.
type numbers struct {
	in   *bufio.Reader
	path string
	line int
	err  error
}

func newNumbers(in io.Reader, path string) *numbers {
	return &numbers{in: bufio.NewReader(in), path: path, line: 1}
}

// eachNumber reads a file that must end where use does.
func eachNumber(path string, use func(*numbers)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := newNumbers(f, path)
	use(in)
	if in.err == nil {
		if word, err := in.word(); err != io.EOF {
			in.fail("%.40q after the end", word)
		}
	}
	return in.err
}

func (n *numbers) fail(format string, args ...any) {
	if n.err == nil {
		n.err = fmt.Errorf("%s:%d: %s", n.path, n.line, fmt.Sprintf(format, args...))
	}
}

// word is the next one; the line is the one it stands in.
func (n *numbers) word() (string, error) {
	var word []byte
	for {
		c, err := n.in.ReadByte()
		if err != nil {
			if len(word) > 0 && err == io.EOF {
				return string(word), nil
			}
			return "", err
		}
		switch {
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			if word = append(word, c); len(word) > 32 {
				return string(word), nil
			}
		case len(word) > 0:
			return string(word), n.in.UnreadByte()
		case c == '\n':
			n.line++
		}
	}
}

// within reads an integer from 0 to most.
func (n *numbers) within(name string, most int64) int64 {
	if n.err != nil {
		return 0
	}
	word, err := n.word()
	if err == io.EOF {
		n.fail("file ends where a %s is expected", name)
		return 0
	}
	if err != nil {
		n.err = fmt.Errorf("%s:%d: %w", n.path, n.line, err)
		return 0
	}
	if most < 0 {
		n.fail("%s %.40q: there is none", name, word)
		return 0
	}
	v, err := strconv.ParseInt(word, 10, 64)
	if err != nil || v < 0 || v > most {
		n.fail("%s %.40q is not in 0..%d", name, word, most)
		return 0
	}
	return v
}

func (n *numbers) amount(name string) int64 { return n.within(name, search.MaxQuantity) }

// count reads how many of something follow.
func (n *numbers) count(name string) int { return int(n.within(name, maxRoadef)) }

// index reads a number below limit.
func (n *numbers) index(name string, limit int) int { return int(n.within(name, int64(limit)-1)) }

func (n *numbers) row(name string, length int) []int64 {
	var row []int64
	for range length {
		if n.err != nil {
			return nil
		}
		row = append(row, n.amount(name))
	}
	return row
}

// maxRoadef bounds each count of a model; the challenge's largest are 50,000.
const maxRoadef = math.MaxUint16
