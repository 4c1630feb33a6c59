package placement

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"
)

// quantity is a device attribute as Nomad reads it: a number with or without a
// unit, a boolean, or text. Only like compares with like.
type quantity struct {
	kind quantityKind
	base unitBase
	num  *big.Rat // in base units
	flag bool
	text string
}

type quantityKind uint8

const (
	isText quantityKind = iota
	isNumber
	isFlag
)

type unitBase uint8

const (
	unitless unitBase = iota
	bytes
	bytesPerSecond
	hertz
	watts
)

// parseQuantity reads "40 GiB", "1.4GHz", "80", "true" or plain text.
func parseQuantity(s string) quantity {
	number, base, scale := splitUnit(s)
	if i, err := strconv.ParseInt(number, 10, 64); err == nil {
		return quantity{kind: isNumber, base: base, num: scaled(new(big.Rat).SetInt64(i), scale)}
	}
	if f, err := strconv.ParseFloat(number, 64); err == nil {
		if rat := new(big.Rat).SetFloat64(f); rat != nil {
			return quantity{kind: isNumber, base: base, num: scaled(rat, scale)}
		}
	}
	if flag, err := strconv.ParseBool(s); err == nil {
		return quantity{kind: isFlag, flag: flag}
	}
	return quantity{kind: isText, text: s}
}

func scaled(r *big.Rat, scale *big.Rat) *big.Rat {
	if scale != nil {
		r.Mul(r, scale)
	}
	return r
}

// splitUnit cuts a known unit off the end.
func splitUnit(s string) (number string, base unitBase, scale *big.Rat) {
	body, rate := strings.CutSuffix(s, "/s")
	for _, u := range []struct {
		suffix string
		base   unitBase
		scale  func(prefix string) (*big.Rat, bool)
	}{
		{"iB", bytes, binaryScale}, {"B", bytes, byteScale}, {"Hz", hertz, hertzScale}, {"W", watts, wattScale},
	} {
		rest, ok := strings.CutSuffix(body, u.suffix)
		if !ok || rate && u.base != bytes {
			continue
		}
		digits := strings.TrimRight(rest, "kKMGTPEm")
		scale, known := u.scale(rest[len(digits):])
		if !known {
			continue
		}
		base = u.base
		if rate {
			base = bytesPerSecond
		}
		return strings.TrimSpace(digits), base, scale
	}
	return s, unitless, nil
}

func binaryScale(prefix string) (*big.Rat, bool) {
	at := strings.Index("KMGTPE", prefix)
	if at < 0 || len(prefix) != 1 {
		return nil, false
	}
	return new(big.Rat).SetInt64(1 << (10 * (at + 1))), true
}

func byteScale(prefix string) (*big.Rat, bool) {
	if prefix == "K" {
		prefix = "k"
	}
	return decimalScale(prefix, "kMGTPE")
}

func hertzScale(prefix string) (*big.Rat, bool) {
	if prefix != "M" && prefix != "G" {
		return nil, false
	}
	return decimalScale(prefix, "kMG")
}

func wattScale(prefix string) (*big.Rat, bool) {
	switch prefix {
	case "":
		return big.NewRat(1, 1), true
	case "m":
		return big.NewRat(1, 1000), true
	}
	return decimalScale(prefix, "kMG")
}

func decimalScale(prefix, prefixes string) (*big.Rat, bool) {
	at := strings.Index(prefixes, prefix)
	if at < 0 || len(prefix) != 1 {
		return nil, false
	}
	scale := big.NewRat(1, 1)
	for range at + 1 {
		scale.Mul(scale, big.NewRat(1000, 1))
	}
	return scale, true
}

// compareQuantity orders two quantities; ok is false where they are of
// different kinds or units. Booleans are only equal or not.
func compareQuantity(a, b quantity) (order int, ok bool) {
	if a.kind != b.kind || a.base != b.base {
		return 0, false
	}
	switch a.kind {
	case isNumber:
		return a.num.Cmp(b.num), true
	case isFlag:
		if a.flag == b.flag {
			return 0, true
		}
		return 1, true
	}
	return cmp.Compare(a.text, b.text), true
}
