package wire

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// deltas has one value of every kind of delta; TestRoundTrip_KnowsEveryDelta
// keeps it complete.
var deltas = []psg.Delta{
	psg.Led{}, psg.NodeChanged{}, psg.NodeGone{}, psg.NodeObserved{},
	psg.WorkloadChanged{}, psg.WorkloadGone{},
	psg.Asked{}, psg.Refused{}, psg.Placed{}, psg.Moved{}, psg.Freed{}, psg.BundleChanged{},
}

// filler sets every field of a value to something random that is not zero.
type filler struct {
	rng   *rand.Rand
	enums map[string][]string // the constants that package psg declares, by type name
}

func newFiller(t testing.TB, seed uint64) *filler {
	return &filler{rng: rand.New(rand.NewPCG(seed, 1)), enums: declaredConstants(t)}
}

func (f *filler) delta(of psg.Delta) psg.Delta {
	v := reflect.New(reflect.TypeOf(of)).Elem()
	f.fill(v)
	return v.Interface().(psg.Delta)
}

func (f *filler) record() psg.Record {
	r := psg.Record{Epoch: psg.Epoch(f.rng.Uint64()), At: f.time()}
	for _, d := range deltas {
		r.Deltas = append(r.Deltas, f.delta(d))
	}
	return r
}

func (f *filler) time() time.Time {
	return time.Unix(1+f.rng.Int64N(1<<33), 1+f.rng.Int64N(999_999_999)).UTC()
}

func (f *filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(f.time()))
		return
	case psg.Resources:
		for i := range v.Len() {
			v.Index(i).SetInt(1 + f.rng.Int64N(psg.MaxQuantity))
		}
		return
	case psg.Placements:
		list := make([]psg.Placement, 1+f.rng.IntN(3))
		f.fill(reflect.ValueOf(&list).Elem())
		v.Set(reflect.ValueOf(psg.PlacementsOf(list...)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+f.rng.IntN(3), 3))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 1 + f.rng.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if names := f.enums[v.Type().Name()]; names != nil {
			v.SetString(names[f.rng.IntN(len(names))])
		} else {
			v.SetString(fmt.Sprintf("é%d", f.rng.Uint64()))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		sign := int64(f.rng.IntN(2)*2 - 1)
		v.SetInt(sign * (1 + f.rng.Int64N(1<<62)))
	case reflect.Uint64:
		v.SetUint(1 + f.rng.Uint64N(1<<63))
	case reflect.Uint32:
		v.SetUint(uint64(1 + f.rng.Uint32N(1<<31)))
	case reflect.Uint8:
		v.SetUint(uint64(1 + f.rng.IntN(255)))
	case reflect.Float64:
		v.SetFloat(1 + f.rng.Float64())
	default:
		panic("the filler does not know " + v.Type().String() + ": teach it, and wire")
	}
}

// declaredConstants reads the string constants of each named type from the
// source of package psg.
func declaredConstants(t testing.TB) map[string][]string {
	t.Helper()
	constants := map[string][]string{}
	for _, file := range parsePSG(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name, named := spec.Type.(*ast.Ident)
			literal, basic := spec.Values[0].(*ast.BasicLit)
			if named && basic && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				constants[name.Name] = append(constants[name.Name], value)
			}
			return true
		})
	}
	return constants
}

func parsePSG(t testing.TB) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob("../*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("the source of package psg is not there: %v", err)
	}
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
