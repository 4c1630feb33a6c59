package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestTranslate_Golden translates each job below testdata/translate and
// compares both forms of output with what was recorded.
func TestTranslate_Golden(t *testing.T) {
	jobs, err := filepath.Glob("testdata/translate/*.json")
	if err != nil || len(jobs) < 15 {
		t.Fatalf("found %d jobs: %v", len(jobs), err)
	}
	for _, job := range jobs {
		t.Run(strings.TrimSuffix(filepath.Base(job), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(job)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := Describe(&got, data, false); err != nil {
				t.Fatal(err)
			}
			if err := Describe(&got, data, true); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(job, ".json")+".golden", got.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; run with -update and read the change:\n%s", name, got)
	}
}

// job writes a job with one group and one task, with more JSON in each.
func job(inJob, inGroup, inTask string) string {
	return fmt.Sprintf(`{"ID":"j"%s,"TaskGroups":[{"Name":"g"%s,"Tasks":[{"Name":"t","Driver":"exec"%s}]}]}`, inJob, inGroup, inTask)
}

func resources(text string) string { return job("", "", `,"Resources":{`+text+`}`) }

func constraint(text string) string { return job(`,"Constraints":[{`+text+`}]`, "", "") }

func TestTranslate_NamesWhatIsWrong(t *testing.T) {
	gate := func(config string) string {
		return `{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"psg","Config":{` + config + `}}]}]}`
	}
	for input, want := range map[string]string{
		``:                                       "the JSON ends early",
		`[]`:                                     "expected an object, got a list",
		`7`:                                      "expected an object, got a number",
		`{"Job":null}`:                           "Job: is null",
		`{"Job":3}`:                              "Job: expected an object, got a number",
		`{"ID":"a"} x`:                           "more follows the JSON value (offset 11)",
		`{"ID":NaN}`:                             "ID: invalid character 'N' looking for beginning of value (offset 6)",
		`{"ID":"a","id":"b"}`:                    "id: stands twice in one object",
		`{"ID":"a"`:                              "the JSON ends early",
		`{"TaskGroups":[{"Count"`:                "TaskGroups[0].Count: the JSON ends early",
		`{}`:                                     "ID: is empty",
		`{"ID":"a"}`:                             "TaskGroups: is empty: a job needs a task group",
		`{"ID":"a","TaskGroups":[null]}`:         "TaskGroups[0]: is null",
		`{"Job":{"ID":"a","TaskGroups":[{}]}}`:   "Job.TaskGroups[0].Name: is empty",
		`{"ID":"a","TaskGroups":[{"Name":"g"}]}`: "TaskGroups[0].Tasks: is empty: a group needs a task",
		job(`,"Meta":{"a":"1","a":"2"}`, "", ""): "Meta.a: stands twice in one object",
		job(`,"Meta":{"a.b":1}`, "", ""):         `Meta["a.b"]: expected a string, got a number`,
		job(`,"Type":"core"`, "", ""):            `Type: "core" is not one of service, batch, system, sysbatch`,
		job(`,"Priority":0`, "", ""):             "Priority: 0 is outside 1..32767",
		job(`,"Datacenters":["a",""]`, "", ""):   "Datacenters[1]: is empty",
		job(`,"Payload":[1]`, "", ""):            "Payload: expected a base64 string, got a list",
		job("", `,"Count":-1`, ""):               "TaskGroups[0].Count: -1 is outside 0..1000000",
		job("", `,"Count":1000001`, ""):          "TaskGroups[0].Count: 1000001 is outside 0..1000000",
		job("", `,"Count":1.5`, ""):              "TaskGroups[0].Count: 1.5 does not fit a whole number of 64 bits",
		job("", `,"Count":99999999999999999999`, ""):   "TaskGroups[0].Count: 99999999999999999999 does not fit a whole number of 64 bits",
		job("", `,"Count":"2"`, ""):                    "TaskGroups[0].Count: expected a whole number of 64 bits, got a string",
		job("", `,"Volumes":{"v":null}`, ""):           "TaskGroups[0].Volumes.v: is null",
		job("", `,"Volumes":{"v":{"Source":"s"}}`, ""): `TaskGroups[0].Volumes.v.Type: "" is not one of host, csi`,
		job("", `,"Services":[null]`, ""):              "TaskGroups[0].Services[0]: is null",
		job("", `,"EphemeralDisk":{"SizeMB":-3}`, ""):  "TaskGroups[0].EphemeralDisk.SizeMB: -3 is negative",
		`{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"exec"},{"Name":"t","Driver":"exec"}]}]}`: `TaskGroups[0].Tasks[1].Name: "t" stands twice`,
		`{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t"}]}]}`:                                              "TaskGroups[0].Tasks[0].Driver: is empty",
		job("", "", `}]},{"Name":"g","Tasks":[{"Name":"u","Driver":"exec"`):                                          `TaskGroups[1].Name: "g" stands twice`,
		resources(`"MemoryMB":-5`):                                                           "TaskGroups[0].Tasks[0].Resources.MemoryMB: -5 is negative",
		resources(`"CPU":2199023255552`):                                                     "TaskGroups[0].Tasks[0].Resources.CPU: 2199023255552 is above 1099511627776",
		resources(`"CPU":100,"Cores":1`):                                                     "TaskGroups[0].Tasks[0].Resources.CPU: 100 beside 1 cores: a task has either",
		resources(`"MemoryMB":20,"MemoryMaxMB":10`):                                          "TaskGroups[0].Tasks[0].Resources.MemoryMaxMB: 10 is below the 20 MiB of memory",
		resources(`"DiskMB":1`):                                                              "TaskGroups[0].Tasks[0].Resources.DiskMB: 1: disk is asked for by the group, as ephemeral_disk",
		resources(`"Devices":[{"Count":2000}]`):                                              "TaskGroups[0].Tasks[0].Resources.Devices[0].Name: is empty: a device is named type, vendor/type or vendor/type/model\nTaskGroups[0].Tasks[0].Resources.Devices[0].Count: 2000 is above 1024",
		resources(`"Devices":[{"Name":"gpu","Count":-1}]`):                                   "TaskGroups[0].Tasks[0].Resources.Devices[0].Count: -1 does not fit a whole number of 64 bits, not negative",
		resources(`"Devices":[{"Name":"gpu","Constraints":[{"Operand":"distinct_hosts"}]}]`): "TaskGroups[0].Tasks[0].Resources.Devices[0].Constraints[0].Operand: operator distinct_hosts is not for devices",
		resources(`"NUMA":{"Affinity":"maybe"}`):                                             `TaskGroups[0].Tasks[0].Resources.NUMA.Affinity: "maybe" is not one of none, prefer, require`,
		resources(`"CPU":1099511627776},"Lifecycle":{"Hook":"prestart","Sidecar":true}},{"Name":"u","Driver":"exec","Resources":{"CPU":1`): "TaskGroups[0]: the tasks together: cpu_mhz 1099511627777 is outside 0..1099511627776",
		job("", "", `,"Lifecycle":{"Hook":"midlife"}`):                                                                             `TaskGroups[0].Tasks[0].Lifecycle.Hook: "midlife" is not one of prestart, poststart, poststop`,
		job("", "", `,"Lifecycle":{"Hook":"poststop","Sidecar":true}`):                                                             "TaskGroups[0].Tasks[0].Lifecycle.Sidecar: a poststop task cannot be a sidecar",
		job("", `,"Networks":[{"ReservedPorts":[{"Label":"a","Value":70000}]}]`, ""):                                               "TaskGroups[0].Networks[0].ReservedPorts[0].Value: 70000 is not a port",
		job("", `,"Networks":[{"DynamicPorts":[{"Label":"a","To":-2}]}]`, ""):                                                      "TaskGroups[0].Networks[0].DynamicPorts[0].To: -2 is not a port",
		job("", `,"Networks":[{"ReservedPorts":[{"Label":"a","Value":80},{"Label":"b","Value":80,"HostNetwork":"default"}]}]`, ""): "TaskGroups[0].Networks[0].ReservedPorts[1].Value: static port 80 stands twice",
		job("", `,"Networks":[{"DynamicPorts":[{"Label":"a"},{"Label":"a"}]}]`, ""):                                                `TaskGroups[0].Networks[0].DynamicPorts[1].Label: "a" stands twice`,
		constraint(`"LTarget":"a","RTarget":"b","Operand":"~"`):                                                                    `Constraints[0].Operand: unknown operator "~"`,
		constraint(`"LTarget":"a"`):                                                                                          "Constraints[0].RTarget: operator = needs a value",
		constraint(`"RTarget":"a"`):                                                                                          `Constraints[0].LTarget: operator "=" needs an attribute`,
		constraint(`"LTarget":"a","RTarget":"(","Operand":"regexp"`):                                                         "Constraints[0].RTarget: not a regular expression: error parsing regexp: missing closing ): `(`",
		constraint(`"LTarget":"a","RTarget":">= x","Operand":"version"`):                                                     `Constraints[0].RTarget: not a version constraint: ">= x"`,
		constraint(`"LTarget":"a","RTarget":"~> 1.2.3","Operand":"semver"`):                                                  `Constraints[0].RTarget: not a semver constraint: "~> 1.2.3"`,
		constraint(`"LTarget":"a","RTarget":"v1_2","Operand":"semver"`):                                                      `Constraints[0].RTarget: not a semver constraint: "v1_2"`,
		constraint(`"LTarget":"a","RTarget":"0","Operand":"distinct_property"`):                                              `Constraints[0].RTarget: "0" is not a count of 1 or more`,
		constraint(`"LTarget":"a","RTarget":"b","Operand":"is_set"`):                                                         "Constraints[0].RTarget: operator is_set takes no value",
		job(`,"Affinities":[{"LTarget":"a","RTarget":"b","Weight":0}]`, "", ""):                                              "Affinities[0].Weight: 0 is not in -100..-1 or 1..100",
		job(`,"Affinities":[{"LTarget":"a","RTarget":"b","Weight":200}]`, "", ""):                                            "Affinities[0].Weight: 200 does not fit a whole number of 8 bits",
		job(`,"Affinities":[{"LTarget":"a","Operand":"is_set"}]`, "", ""):                                                    "Affinities[0].Operand: operator is_set is for constraints only",
		job(`,"Spreads":[{"Attribute":"a","Weight":-1}]`, "", ""):                                                            "Spreads[0].Weight: -1 is outside 1..100",
		job(`,"Spreads":[{"Attribute":"a","SpreadTarget":[{"Value":"x","Percent":60},{"Value":"y","Percent":50}]}]`, "", ""): "Spreads[0].SpreadTarget: the percents add up to 110, more than 100",
		job(`,"Spreads":[{"SpreadTarget":[{"Value":"x"},{"Value":"x"}]}]`, "", ""):                                           "Spreads[0].Attribute: is empty\nSpreads[0].SpreadTarget[1].Value: \"x\" stands twice",
		job(`,"Type":"batch","Periodic":{"Spec":"soon"}`, "", ""):                                                            `Periodic.Spec: not a cron expression: "soon"`,
		job(`,"Type":"batch","Periodic":{}`, "", ""):                                                                         "Periodic.Spec: is empty: a periodic job needs a cron expression",
		job(`,"Periodic":{"Spec":"@daily"}`, "", ""):                                                                         `Type: "service" is not one of batch, sysbatch`,
		job(`,"Type":"batch","Periodic":{"Spec":"@daily","TimeZone":"Mars/Base"}`, "", ""):                                   `Periodic.TimeZone: unknown time zone "Mars/Base"`,
		job(`,"ParameterizedJob":{"Payload":"maybe","MetaRequired":["a"],"MetaOptional":["a"]}`, "", ""):                     "ParameterizedJob.Payload: \"maybe\" is not one of , optional, required, forbidden\nParameterizedJob.MetaOptional[0]: \"a\" is required too",
		job("", `,"Update":{"MaxParallel":-1,"Stagger":-5}`, ""):                                                             "TaskGroups[0].Update.MaxParallel: -1 is outside 0..1000000\nTaskGroups[0].Update.Stagger: -5ns is negative",
		job("", `,"ReschedulePolicy":{"DelayFunction":"random"}`, ""):                                                        `TaskGroups[0].ReschedulePolicy.DelayFunction: "random" is not one of , constant, exponential, fibonacci`,
		gate(`"colour":"red"`):      "TaskGroups[0].Tasks[0].Config.colour: ",
		gate(`"gpu":{"count":"x"}`): "TaskGroups[0].Tasks[0].Config.gpu",
		gate(`"tenant":"a"}},{"Name":"u","Driver":"psg","Config":{"tenant":"b"`):                                        `TaskGroups[0].Tasks[1].Config.tenant: "b", but another psg task of the group says "a"`,
		`{"ID":"` + strings.Repeat("x", 2000) + `","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"exec"}]}]}`: "ID: 2000 bytes are more than 1024",
		`{"ID":"` + strings.Repeat("x", 1<<20) + `"}`:                                                                   "ID: a string of 1048576 bytes is longer than 524288",
		job(`,"Shiny":`+strings.Repeat("[", 200)+strings.Repeat("]", 200), "", ""):                                      "Shiny" + strings.Repeat("[0]", 100) + ": nested more than 100 deep",
		strings.Repeat(" ", maxInput+1):                                                                                 "16777217 bytes of JSON are more than 16777216",
	} {
		got, err := Translate([]byte(input))
		if err == nil {
			t.Errorf("%.200s: translated to %+v, want %q", input, got, want)
			continue
		}
		if !strings.HasPrefix(err.Error(), want) || !errors.Is(err, psg.ErrInvalid) {
			t.Errorf("%.200s:\n got %.400q\nwant %.400q, a psg.ErrInvalid", input, err, want)
		}
	}
}

func TestTranslate_BoundsObjectsAndUnknownFields(t *testing.T) {
	services := strings.Repeat("{},", maxObjects)
	if _, err := Translate([]byte(job("", `,"Services":[`+services+`{}]`, ""))); err == nil || !strings.Contains(err.Error(), "more than 100000 objects") {
		t.Errorf("%d services: %v", maxObjects+1, err)
	}
	var unknown strings.Builder
	for i := range maxUnknown + 1 {
		fmt.Fprintf(&unknown, `,"shiny%d":1`, i)
	}
	if _, err := Translate([]byte(job(unknown.String(), "", ""))); err == nil || err.Error() != "more than 1000 unknown fields" {
		t.Errorf("%d unknown fields: %v", maxUnknown+1, err)
	}
}

func TestTranslate_BoundsWhatAJobRepeats(t *testing.T) {
	var meta, groups strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&meta, `,"k%d":"v"`, i)
		fmt.Fprintf(&groups, `,{"Name":"g%d","Meta":{"a":"b"},"Tasks":[{"Name":"t","Driver":"exec"}]}`, i)
	}
	input := `{"ID":"j","Meta":{` + meta.String()[1:] + `},"TaskGroups":[` + groups.String()[1:] + `]}`
	if _, err := Translate([]byte(input)); err == nil || !strings.Contains(err.Error(), "repeated more than 1000000 times") {
		t.Errorf("2000 groups with 2000 meta each: %v", err)
	}
}

func TestTranslateJob_AgreesWithTranslateAndLeavesTheJobAlone(t *testing.T) {
	data, err := os.ReadFile("testdata/translate/lifetime.json")
	if err != nil {
		t.Fatal(err)
	}
	var job api.Job
	if err := json.Unmarshal(data, &job); err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(job)
	fromJob, err := TranslateJob(&job)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(job); !bytes.Equal(before, after) {
		t.Errorf("the job was changed to %s", after)
	}
	fromJSON, err := Translate(data)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(fromJob)
	b, _ := json.Marshal(fromJSON)
	if !bytes.Equal(a, b) {
		t.Errorf("from the job %s\nfrom JSON %s", a, b)
	}
	if _, err := TranslateJob(nil); !errors.Is(err, psg.ErrInvalid) {
		t.Errorf("no job: %v", err)
	}
}

// FuzzTranslate holds that any input gives an error or workloads that are
// themselves well formed, the same ones each time.
func FuzzTranslate(f *testing.F) {
	jobs, _ := filepath.Glob("testdata/translate/*.json")
	for _, name := range jobs {
		if data, err := os.ReadFile(name); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Translate(data)
		if err != nil {
			if !errors.Is(err, psg.ErrInvalid) || len(got.Workloads) != 0 {
				t.Fatalf("%v with %d workloads", err, len(got.Workloads))
			}
			return
		}
		for _, w := range got.Workloads {
			if err := w.Request.Validate(); err != nil {
				t.Fatalf("%s: %v", w.ID, err)
			}
			if id, ok := psg.ParseWorkloadID(w.ID.String()); w.ID.Job == "" || w.ID.Group == "" || w.Count < 0 || len(w.Tasks) == 0 || !ok || id != w.ID {
				t.Fatalf("bad workload %+v", w)
			}
		}
		again, err := Translate(data)
		a, _ := json.Marshal(got)
		if b, _ := json.Marshal(again); err != nil || !bytes.Equal(a, b) {
			t.Fatalf("translated again: %v\n%s\n%s", err, a, b)
		}
	})
}

// BenchmarkTranslate translates a job of ten groups with gates.
func BenchmarkTranslate(b *testing.B) {
	data, err := os.ReadFile("testdata/translate/output_flag.json")
	if err != nil {
		b.Fatal(err)
	}
	var wrapped struct{ Job map[string]any }
	if err := json.Unmarshal(data, &wrapped); err != nil {
		b.Fatal(err)
	}
	group := wrapped.Job["TaskGroups"].([]any)[0].(map[string]any)
	var groups []any
	for i := range 10 {
		copied := map[string]any{}
		for key, value := range group {
			copied[key] = value
		}
		copied["Name"] = fmt.Sprintf("group-%d", i)
		groups = append(groups, copied)
	}
	wrapped.Job["TaskGroups"] = groups
	if data, err = json.Marshal(wrapped); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Translate(data); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTranslate_WarnsOfAnEmptyStanza(t *testing.T) {
	for config, warned := range map[string]bool{`{}`: true, `null`: true, `{"kind": "service"}`: false} {
		translated, err := Translate([]byte(`{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "gate", "Driver": "psg",
			"Lifecycle": {"Hook": "prestart"}, "Config": ` + config + `}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(translated.Losses, func(l Loss) bool { return l.Path == "TaskGroups[0].Tasks[0].Config" })
		if found != warned {
			t.Errorf("config %s: losses %v", config, translated.Losses)
		}
	}
}
