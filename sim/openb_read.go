package sim

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/psgrid/psg"
)

// openbTrace is the trace in PSG's nouns: each distinct pod is one workload.
type openbTrace struct {
	nodes     []psg.Node
	workloads []psg.Workload
	pods      []int // pod row to workload
	sequence  []int // pod rows in the order of arrival
}

func (o Openb) read() (*openbTrace, error) {
	t := &openbTrace{}
	byKey := make(map[string]int)
	err := eachRow(o.Nodes, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, func(r row) error {
		n, err := openbNode(r)
		t.nodes = append(t.nodes, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = eachRow(o.Pods, []string{"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, func(r row) error {
		key := strings.Join([]string{r.text("cpu_milli"), r.text("memory_mib"), r.text("num_gpu"), r.text("gpu_milli"), r.text("gpu_spec")}, " ")
		at, ok := byKey[key]
		if !ok {
			w, err := openbWorkload(r, key)
			if err != nil {
				return err
			}
			at = len(t.workloads)
			byKey[key] = at
			t.workloads = append(t.workloads, w)
		}
		t.workloads[at].Count++
		t.pods = append(t.pods, at)
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.sequence, err = readSequence(o.Sequence, len(t.pods))
	return t, err
}

// openbNode reads a machine. Its cards have the indexes the referee counts by
// as IDs.
func openbNode(r row) (psg.Node, error) {
	n := psg.Node{ID: psg.NodeID(r.text("sn")), Name: r.text("sn"), Ready: true}
	cpu, err := r.number("cpu_milli")
	if err != nil {
		return n, err
	}
	memory, err := r.number("memory_mib")
	if err != nil {
		return n, err
	}
	cards, err := r.number("gpu")
	if err != nil {
		return n, err
	}
	n.Capacity = psg.Resources{psg.CPU: cpu, psg.Memory: memory}
	for i := range min(cards, 64) {
		n.Devices = append(n.Devices, psg.Device{
			ID: psg.DeviceID(strconv.FormatInt(i, 10)), Vendor: "nvidia", Type: "gpu", Model: r.text("model"), NUMA: -1, Healthy: true,
		})
	}
	return n, nil
}

// openbWorkload reads a pod. Its gpu_spec lists the models it may have; the
// trace knows no limit to how many pods may move at once.
func openbWorkload(r row, key string) (psg.Workload, error) {
	w := psg.Workload{ID: psg.WorkloadID{Namespace: "openb", Job: key, Group: "pod"}, Type: psg.Batch, Priority: 50, Migrate: &psg.Migrate{MaxParallel: 1 << 20}}
	cpu, err := r.number("cpu_milli")
	if err != nil {
		return w, err
	}
	memory, err := r.number("memory_mib")
	if err != nil {
		return w, err
	}
	cards, err := r.number("num_gpu")
	if err != nil {
		return w, err
	}
	w.Request = psg.Resources{psg.CPU: cpu, psg.Memory: memory}
	if cards == 0 {
		return w, nil
	}
	milli, err := r.number("gpu_milli")
	if err != nil {
		return w, err
	}
	ask := psg.DeviceAsk{Name: "gpu", Count: int(cards), MilliGPU: min(milli, 1000)}
	if models := r.text("gpu_spec"); models != "" {
		ask.Constraints = []psg.Constraint{{
			Left: "${device.model}", Operator: psg.SetContainsAny, Right: strings.ReplaceAll(models, "|", ","),
		}}
	}
	w.Devices = []psg.DeviceAsk{ask}
	return w, nil
}

// row is one line of a CSV file with a header.
type row struct {
	where   string
	columns map[string]int
	fields  []string
}

// text is a column's value, empty where the file has no such column.
func (r row) text(column string) string {
	at, ok := r.columns[column]
	if !ok || at >= len(r.fields) {
		return ""
	}
	return r.fields[at]
}

// number reads a column that holds an amount, which may be written as a float.
func (r row) number(column string) (int64, error) {
	f, err := strconv.ParseFloat(r.text(column), 64)
	if err != nil || !(f >= 0 && f <= psg.MaxQuantity) {
		return 0, fmt.Errorf("%s: %s %.40q is not a number in 0..%d", r.where, column, r.text(column), int64(psg.MaxQuantity))
	}
	return int64(f), nil
}

// eachRow reads a CSV file that must have the columns named.
func eachRow(path string, columns []string, use func(row) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := csv.NewReader(f)
	header, err := lines.Read()
	if err != nil {
		return fmt.Errorf("%s: header: %w", path, err)
	}
	at := make(map[string]int, len(header))
	for i, name := range header {
		at[name] = i
	}
	for _, name := range columns {
		if _, ok := at[name]; !ok {
			return fmt.Errorf("%s: no column %q", path, name)
		}
	}
	for {
		fields, err := lines.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		line, _ := lines.FieldPos(0)
		if err := use(row{fmt.Sprintf("%s:%d", path, line), at, fields}); err != nil {
			return err
		}
	}
}

// readSequence reads row numbers below pods, one a line.
func readSequence(path string, pods int) ([]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var sequence []int
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		pod, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil || pod < 0 || pod >= pods {
			return nil, fmt.Errorf("%s:%d: %.40q is not a row in 0..%d", path, n, lines.Text(), pods-1)
		}
		sequence = append(sequence, pod)
	}
	return sequence, lines.Err()
}
