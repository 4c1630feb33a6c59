package policies

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
)

// field is one entry of a document.
func field(name string, value *ast.Term) [2]*ast.Term {
	return [2]*ast.Term{ast.InternedTerm(name), value}
}

func text[T ~string](s T) *ast.Term { return ast.StringTerm(string(s)) }

func integer(n int64) *ast.Term { return ast.NumberTerm(json.Number(strconv.FormatInt(n, 10))) }

func stringMap(m map[string]string) *ast.Term {
	fields := make([][2]*ast.Term, 0, len(m))
	for name, value := range m {
		fields = append(fields, [2]*ast.Term{ast.StringTerm(name), ast.StringTerm(value)})
	}
	return ast.ObjectTerm(fields...)
}

func stringList(list []string) *ast.Term {
	terms := make([]*ast.Term, len(list))
	for i, s := range list {
		terms[i] = ast.StringTerm(s)
	}
	return ast.ArrayTerm(terms...)
}

// amounts are resources together with the milli-GPU, which in psg belong to
// devices.
func amounts(r psg.Resources, milliGPU int64) *ast.Term {
	fields := make([][2]*ast.Term, 0, psg.Dimensions+1)
	for dimension, amount := range r {
		fields = append(fields, field(psg.Dimension(dimension).String(), integer(amount)))
	}
	return ast.ObjectTerm(append(fields, field("milli_gpu", integer(milliGPU)))...)
}

// service names the job a workload belongs to.
func service(id psg.WorkloadID) string {
	return url.PathEscape(id.Namespace) + "/" + url.PathEscape(id.Job)
}

// isGPU reports whether a device ask is for GPUs, however fully it names them.
func isGPU(ask psg.DeviceAsk) bool {
	parts := strings.Split(ask.Name, "/")
	return parts[min(1, len(parts)-1)] == "gpu"
}

// workloadDocument is input.workload.
func workloadDocument(w *psg.Workload) *ast.Term {
	var milliGPU, gpus int64
	devices := make([]*ast.Term, len(w.Devices))
	for i, ask := range w.Devices {
		if isGPU(ask) {
			milliGPU += int64(ask.Count) * ask.MilliGPU
			gpus += int64(ask.Count)
		}
		devices[i] = ast.ObjectTerm(
			field("name", text(ask.Name)), field("count", integer(int64(ask.Count))), field("milli_gpu", integer(ask.MilliGPU)),
			field("memory_mb", integer(ask.MemoryMB)), field("profile", text(ask.Profile)), field("linked", ast.InternedTerm(ask.Linked)))
	}
	var drivers []string
	for _, task := range w.Tasks {
		drivers = append(drivers, task.Driver)
	}
	slices.Sort(drivers)
	return ast.ObjectTerm(
		field("id", text(w.ID.String())), field("namespace", text(w.ID.Namespace)), field("job", text(w.ID.Job)),
		field("group", text(w.ID.Group)), field("service", text(service(w.ID))), field("region", text(w.Region)),
		field("type", text(w.Type)), field("tenant", text(w.Tenant)), field("tier", text(w.Tier)), field("kind", text(w.Kind)),
		field("labels", stringMap(w.Labels)), field("meta", stringMap(w.Meta)), field("priority", integer(int64(w.Priority))),
		field("preemptible", ast.InternedTerm(w.Preemptible)), field("count", integer(int64(w.Count))), field("gang", text(w.Gang)),
		field("request", amounts(w.Request, milliGPU)), field("milli_gpu", integer(milliGPU)), field("gpus", integer(gpus)),
		field("devices", ast.ArrayTerm(devices...)), field("datacenters", stringList(w.Datacenters)),
		field("node_pool", text(w.NodePool)), field("drivers", stringList(slices.Compact(drivers))))
}
