package policies

import (
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/hclspec"
)

// wrongPart is what is wrong with a part of a value, and which part that is.
type wrongPart struct {
	path string
	err  error
}

func (w *wrongPart) Error() string { return fmt.Sprintf("value%s: %v", w.path, w.err) }

func (w *wrongPart) Unwrap() error { return w.err }

// under is an error of a part as one of what the part is in.
func under(err error, step string) error {
	var wrong *wrongPart
	if errors.As(err, &wrong) {
		wrong.path = step + wrong.path
	}
	return err
}

// checkDigits reports a number in a value that is too large or too small: see
// hclspec.MaxDigits.
func checkDigits(v ast.Value) (err error) {
	switch v := v.(type) {
	case ast.Number:
		if err := hclspec.CheckDigits(string(v)); err != nil {
			return &wrongPart{err: err}
		}
	case *ast.Array:
		for i := 0; i < v.Len() && err == nil; i++ {
			err = under(checkDigits(v.Elem(i).Value), fmt.Sprintf("[%d]", i))
		}
	case ast.Object:
		err = v.Iter(func(key, value *ast.Term) error {
			name, _ := key.Value.(ast.String) // as all of JSON's are
			return under(checkDigits(value.Value), "."+string(name))
		})
	}
	return err
}

// manyDigits is where in a Rego file there are more digits in a row than a number
// may have, which its parser would take long to read; -1 for nowhere.
func manyDigits(src string) int {
	row := 0
	for i := range len(src) {
		switch c := src[i]; {
		case c < '0' || c > '9':
			row = 0
		case row == hclspec.MaxDigits:
			return i - row
		default:
			row++
		}
	}
	return -1
}
