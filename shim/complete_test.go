package shim

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// leaf is one scalar somewhere in a job.
type leaf struct {
	path, pattern string
	value         reflect.Value // settable
}

// leaves lists the scalars that a value holds.
func leaves(path, pattern string, v reflect.Value) []leaf {
	var out []leaf
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out = leaves(path, pattern, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name, ok := jsonName(v.Type().Field(i)); ok {
				out = append(out, leaves(field(path, name), strings.TrimPrefix(pattern+"."+name, "."), v.Field(i))...)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, leaves(elem(path, i), pattern, v.Index(i))...)
		}
	case reflect.Map:
		for _, key := range sortedKeys(v) {
			if v.Type().Elem().Kind() == reflect.Pointer {
				out = append(out, leaves(field(path, key.String()), pattern, v.MapIndex(key))...)
			}
		}
	default:
		out = append(out, leaf{path, pattern, v})
	}
	return out
}

// fill sets everything a value can hold, one element to each list and map.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if _, ok := jsonName(v.Type().Field(i)); ok {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("any"))
	default:
		change(v)
	}
}

// change gives a scalar another value.
func change(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 7)
	case v.CanUint():
		v.SetUint(v.Uint() + 7)
	case v.CanFloat():
		v.SetFloat(v.Float() + 7)
	}
}

func carriedPattern(pattern string) bool {
	for carried := range losable().carried {
		if pattern == carried || strings.HasPrefix(pattern, carried+".") {
			return true
		}
	}
	return false
}

// A field of Nomad's job that is neither carried nor reported has vanished.
func TestTranslate_EveryFieldOfAJobIsCarriedOrReported(t *testing.T) {
	job := new(api.Job)
	fill(reflect.ValueOf(job).Elem())
	job.Name = new("not the ID, which is its default")
	reported := jobLosses("", job, canonical(job))
	for _, one := range leaves("", "", reflect.ValueOf(job)) {
		found := carriedPattern(one.pattern)
		for _, loss := range reported {
			rest, below := strings.CutPrefix(one.path, loss.Path)
			found = found || below && (rest == "" || rest[0] == '.' || rest[0] == '[')
		}
		if !found {
			t.Errorf("%s is neither carried nor reported", one.path)
		}
	}
	for _, loss := range reported {
		if loss.Path == "ID" || loss.Path == "TaskGroups[0].Tasks[0].Resources.CPU" {
			t.Errorf("%s is carried and reported as lost", loss.Path)
		}
	}
}

// A field that is said to be carried makes a difference in the workloads.
func TestTranslate_EveryCarriedFieldCounts(t *testing.T) {
	data, err := os.ReadFile("testdata/carried.json")
	if err != nil {
		t.Fatal(err)
	}
	translateChanged := func(i int) (leaf, string) {
		var job api.Job
		if err := json.Unmarshal(data, &job); err != nil {
			t.Fatal(err)
		}
		var one leaf
		if all := leaves("", "", reflect.ValueOf(&job)); i >= 0 {
			if i >= len(all) {
				return leaf{}, ""
			}
			one = all[i]
			change(one.value)
		}
		got, err := TranslateJob(&job)
		if err != nil {
			return one, err.Error()
		}
		text, _ := json.Marshal(got.Workloads)
		return one, string(text)
	}
	_, unchanged := translateChanged(-1)
	if !strings.HasPrefix(unchanged, "[") {
		t.Fatalf("the unchanged job: %s", unchanged)
	}
	visited := map[string]bool{}
	for i := 0; ; i++ {
		one, text := translateChanged(i)
		if text == "" {
			break
		}
		if carriedPattern(one.pattern) && text == unchanged {
			t.Errorf("changing %s changes no workload", one.path)
		}
		visited[one.pattern] = true
	}
	filled := new(api.Job)
	fill(reflect.ValueOf(filled).Elem())
	for _, one := range leaves("", "", reflect.ValueOf(filled)) {
		if carriedPattern(one.pattern) && !visited[one.pattern] {
			t.Errorf("testdata/carried.json has no %s", one.pattern)
		}
	}
}
