package shim

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// TestOutlined_FindsWhatMakesAJobPSGs holds the outline to the whole job.
func TestOutlined_FindsWhatMakesAJobPSGs(t *testing.T) {
	const hold = `{"LTarget":"${meta.psg_hold}","RTarget":"never","Operand":"="}`
	for _, inside := range []string{
		`"TaskGroups":null`, `"TaskGroups":[]`, `"TaskGroups":[null,{"Tasks":null,"Constraints":null}]`,
		`"TaskGroups":[{"Tasks":[null,{"Driver":"exec"}]}]`,
		`"TaskGroups":[{"Tasks":[{"Driver":"exec"}]},null,{"Tasks":[null,{"Driver":"psg"}]}]`,
		`"taskgroups":[{"Ta\u017f\u212as":[{"dRiver":"psg"}]}]`,
		`"Constraints":[null,` + hold + `]`,
		`"TaskGroups":[{"Constraints":[{},` + hold + `]}]`,
		`"TaskGroups":[{"Tasks":[{"Driver":"exec","Constraints":[` + hold + `]}]}]`,
		`"TaskGroups":{}`, `"TaskGroups":[7]`, `"Constraints":"all"`, `"TaskGroups":[{"Tasks":[{"Driver":1},{"Driver":"psg"}]}]`,
	} {
		body := []byte(`{"Job":{"ID":"web",` + inside + `}}`)
		var request api.JobRegisterRequest
		err := json.Unmarshal(body, &request)
		seen := outlined(body)
		if want := err == nil && gated(request.Job); seen.managed() != want {
			t.Errorf("%s: managed %t, want %t (%v)", inside, seen.managed(), want, err)
		}
		if want := err == nil && strings.Contains(inside, hold); seen.held() != want {
			t.Errorf("%s: held %t, want %t", inside, seen.held(), want)
		}
	}
}

// TestOutlined_KeepsNothingOfLongLists has it read the most tasks that fit in a
// request, which as such would take gigabytes.
func TestOutlined_KeepsNothingOfLongLists(t *testing.T) {
	const tasks, most = 1 << 20, 128 // bytes of each, garbage included
	body := []byte(`{"Job":{"ID":"web","TaskGroups":[{"Tasks":[` + strings.Repeat("{},", tasks) + `{"Driver":"psg"}]}]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	seen := outlined(body)
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; !seen.managed() || spent > tasks*most {
		t.Errorf("managed %t, %d bytes for each of its tasks", seen.managed(), spent/tasks)
	}
}
