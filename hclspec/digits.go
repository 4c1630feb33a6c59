package hclspec

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// MaxDigits bounds the numbers that policies are given, as they would be written
// without an exponent. What is done with one takes time that grows with the square
// of its digits, and cannot be stopped: 1e-30000 is short, and takes a third of a
// second to negate.
const MaxDigits = 1000

// CheckDigits reports a number of more than MaxDigits, as JSON, HCL and Rego
// write them.
func CheckDigits(number string) error {
	mantissa, exponent := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		n, err := strconv.Atoi(number[i+1:])
		if err != nil {
			n = MaxDigits + 1 // so large that it is no int
		}
		mantissa, exponent = number[:i], max(n, -n)
	}
	if len(mantissa)+exponent > MaxDigits {
		return tooManyDigits(number)
	}
	return nil
}

func tooManyDigits(number string) error {
	if len(number) > 20 {
		number = number[:20] + "…"
	}
	return fmt.Errorf("%s is a number of more than %d digits", number, MaxDigits)
}

// digits reports the numbers in a value that are too large or too small.
func (d *bundleDecoder) digits(value cty.Value, at hcl.Range, what string) (ok bool) {
	before := len(d.errs)
	// The callback gives no error, so neither does Walk.
	_ = cty.Walk(value, func(path cty.Path, v cty.Value) (bool, error) {
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.Number && !printable(v.AsBigFloat()) { // which its error does not show, therefore
			d.errs.add(at, "%s%s is a number of more than %d digits", what, steps(path), MaxDigits)
		}
		return v.IsKnown() && !v.IsNull(), nil
	})
	return len(d.errs) == before
}

// printable reports whether a number can be written, and read, in no time.
func printable(f *big.Float) bool {
	const bitsADigit = 3.33
	exponent := f.MantExp(nil)
	return !f.IsInf() && max(exponent, -exponent) <= MaxDigits*bitsADigit
}

// steps is a path as a reference writes it.
func steps(path cty.Path) string {
	var out strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			if identifierSyntax.MatchString(step.Name) {
				out.WriteString("." + step.Name)
			} else {
				fmt.Fprintf(&out, "[%q]", step.Name)
			}
		case cty.IndexStep:
			if step.Key.Type() == cty.String {
				fmt.Fprintf(&out, "[%q]", step.Key.AsString())
			} else if step.Key.Type() == cty.Number {
				fmt.Fprintf(&out, "[%s]", step.Key.AsBigFloat().Text('f', 0))
			}
		}
	}
	return out.String()
}
