package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/hclspec"
)

// decoder reads JSON text into the values of Rego, without the Go values that
// would else lie between, and at a pace. Of names and texts that occur again and
// again there is one.
type decoder struct {
	text  []byte // valid JSON
	at    int
	pace  *pace
	seed  maphash.Seed
	known [1024]*ast.Term // strings, by hash: the last of each
	pairs [][2]*ast.Term  // of the objects that are being read, innermost last
	terms []*ast.Term     // likewise, of arrays
}

// maxKnown bounds the strings of which there is one, in bytes.
const maxKnown = 64

// decodeJSON is the value of a JSON text. Of members with one name the last
// counts, and what is no UTF-8 is replaced, as encoding/json has it. Numbers are
// bounded (hclspec.MaxDigits).
func decodeJSON(text []byte, pace *pace) (*ast.Term, error) {
	if !json.Valid(text) {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, err
		}
		return nil, errors.New("the text is no JSON")
	}
	pace.rest()
	d := &decoder{text: text, pace: pace, seed: maphash.MakeSeed()}
	return d.value()
}

// next is the next byte that is no space. There is one: the text is valid.
func (d *decoder) next() byte {
	for {
		switch c := d.text[d.at]; c {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return c
		}
	}
}

// take reports whether the next byte is c, which it then leaves behind.
func (d *decoder) take(c byte) bool {
	if d.next() != c {
		return false
	}
	d.at++
	return true
}

func (d *decoder) value() (*ast.Term, error) {
	d.pace.step()
	switch d.next() {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.string()
	}
	return d.scalar()
}

func (d *decoder) object() (*ast.Term, error) {
	d.at++
	base := len(d.pairs)
	for first := true; !d.take('}'); first = false {
		if !first {
			d.take(',')
		}
		d.next()
		key, err := d.string()
		if err != nil {
			return nil, err
		}
		d.take(':')
		value, err := d.value()
		if err != nil {
			return nil, under(err, "."+string(key.Value.(ast.String)))
		}
		d.pairs = append(d.pairs, [2]*ast.Term{key, value})
	}
	object := ast.NewObject(lastOfEach(d.pairs[base:])...)
	d.pairs = d.pairs[:base]
	return ast.NewTerm(object), nil
}

// fewPairs are so many that comparing each with each costs less than a map.
const fewPairs = 16

// lastOfEach is pairs with the last one of each key, in place.
func lastOfEach(pairs [][2]*ast.Term) [][2]*ast.Term {
	at := map[ast.String]int{}
	find := func(key ast.String, among [][2]*ast.Term) (int, bool) {
		if len(pairs) > fewPairs {
			i, ok := at[key]
			return i, ok
		}
		for i, pair := range among {
			if pair[0].Value.(ast.String) == key {
				return i, true
			}
		}
		return 0, false
	}
	kept := pairs[:0]
	for _, pair := range pairs {
		key := pair[0].Value.(ast.String)
		if i, ok := find(key, kept); ok {
			kept[i] = pair
			continue
		}
		if len(pairs) > fewPairs {
			at[key] = len(kept)
		}
		kept = append(kept, pair)
	}
	return kept
}

func (d *decoder) array() (*ast.Term, error) {
	d.at++
	base := len(d.terms)
	for first := true; !d.take(']'); first = false {
		if !first {
			d.take(',')
		}
		value, err := d.value()
		if err != nil {
			return nil, under(err, fmt.Sprintf("[%d]", len(d.terms)-base))
		}
		d.terms = append(d.terms, value)
	}
	elements := append([]*ast.Term(nil), d.terms[base:]...)
	d.terms = d.terms[:base]
	return ast.NewTerm(ast.NewArray(elements...)), nil
}

// string reads what begins with a quote.
func (d *decoder) string() (*ast.Term, error) {
	from, plain := d.at, true
	for d.at++; d.text[d.at] != '"'; d.at++ {
		if d.text[d.at] == '\\' {
			plain = false
			d.at++
		}
	}
	d.at++
	literal := d.text[from:d.at]
	bare := literal[1 : len(literal)-1]
	if !plain || !utf8.Valid(bare) {
		var text string
		if err := json.Unmarshal(literal, &text); err != nil {
			return nil, err
		}
		return ast.StringTerm(text), nil
	}
	if len(bare) > maxKnown {
		return ast.StringTerm(string(bare)), nil
	}
	slot := &d.known[maphash.Bytes(d.seed, bare)%uint64(len(d.known))]
	if *slot == nil || string((*slot).Value.(ast.String)) != string(bare) {
		*slot = ast.StringTerm(string(bare))
	}
	return *slot, nil
}

// scalar reads a number, true, false or null.
func (d *decoder) scalar() (*ast.Term, error) {
	from := d.at
	for d.at < len(d.text) && !endsScalar(d.text[d.at]) {
		d.at++
	}
	var value any
	switch text := string(d.text[from:d.at]); text {
	case "true", "false":
		value = text == "true"
	case "null":
	default:
		if err := hclspec.CheckDigits(text); err != nil {
			return nil, &wrongPart{err: err}
		}
		value = json.Number(text)
	}
	converted, err := ast.InterfaceToValue(value)
	return ast.NewTerm(converted), err
}

func endsScalar(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}
