package shim

import (
	"reflect"
	"strings"
	"sync"

	"github.com/hashicorp/nomad/api"
)

// shapes holds, for each struct type of a job, its JSON fields by lower-case
// name: encoding/json takes keys in any case.
type shapes map[reflect.Type]map[string]shapeField

type shapeField struct {
	name string
	typ  reflect.Type
}

// jobShapes is the shapes of everything a job registration can hold, computed
// once.
var jobShapes = sync.OnceValue(func() shapes {
	s := shapes{}
	s.add(reflect.TypeFor[api.JobRegisterRequest]())
	return s
})

func (s shapes) add(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		s.add(t.Elem())
	case reflect.Struct:
		if _, done := s[t]; done {
			return
		}
		fields := map[string]shapeField{}
		s[t] = fields
		for _, f := range reflect.VisibleFields(t) {
			name, ok := jsonName(f)
			if !ok {
				continue
			}
			fields[strings.ToLower(name)] = shapeField{name, f.Type}
			s.add(f.Type)
		}
	}
}

// jsonName is the key a struct field has in JSON, if it has one.
func jsonName(f reflect.StructField) (string, bool) {
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case !f.IsExported(), f.Anonymous, tag == "-":
		return "", false
	case tag != "":
		return tag, true
	}
	return f.Name, true
}

func (s shapes) find(t reflect.Type, key string) (shapeField, bool) {
	fields := s[t]
	if f, ok := fields[strings.ToLower(key)]; ok {
		return f, true
	}
	// Folding is wider than lower case: the Kelvin sign is a k.
	for name, f := range fields {
		if strings.EqualFold(name, key) {
			return f, true
		}
	}
	return shapeField{}, false
}
