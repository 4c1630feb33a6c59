package hclspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyconvert "github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Variable overrides the default of a variable block. For a variable whose type
// is string the value stands as it is; for any other it is an HCL expression,
// such as 3 or ["a", "b"].
type Variable struct {
	Name  string
	Value string
}

type variableBlock struct {
	Name        string         `hcl:"name,label"`
	NameRange   hcl.Range      `hcl:"name,label_range"`
	Type        hcl.Expression `hcl:"type,optional"`
	TypeRange   hcl.Range      `hcl:"type,attr_value_range"`
	Default     hcl.Expression `hcl:"default,optional"`
	HasDefault  hcl.Range      `hcl:"default,attr_value_range"`
	Description string         `hcl:"description,optional"`
	Range       hcl.Range      `hcl:",def_range"`
}

type variablesFile struct {
	Variables []variableBlock `hcl:"variable,block"`
	Rest      hcl.Body        `hcl:",remain"`
}

// variables evaluates the variable blocks and returns the body without them,
// with the context in which the rest is evaluated.
func (d *bundleDecoder) variables(body hcl.Body, overrides []Variable) (hcl.Body, *hcl.EvalContext) {
	ctx := &hcl.EvalContext{Functions: bundleFunctions()}
	var file variablesFile
	d.errs.diagnose(d.filename, gohcl.DecodeBody(body, ctx, &file))
	given := map[string]string{}
	for _, override := range overrides {
		given[override.Name] = override.Value
	}
	values := map[string]cty.Value{}
	for _, block := range file.Variables {
		if d.once("variable", block.Name, block.Range) {
			values[block.Name] = d.variable(block, ctx, given)
		}
	}
	for _, override := range overrides {
		if _, ok := values[override.Name]; !ok {
			d.errs.add(hcl.Range{Filename: d.filename, Start: hcl.InitialPos}, "variable %q is given a value but not declared%s",
				override.Name, DidYouMean(override.Name, names(file.Variables, func(b variableBlock) string { return b.Name })))
		}
	}
	ctx.Variables = map[string]cty.Value{"var": cty.ObjectVal(values)}
	return file.Rest, ctx
}

func (d *bundleDecoder) variable(block variableBlock, ctx *hcl.EvalContext, given map[string]string) cty.Value {
	want := cty.DynamicPseudoType
	if block.TypeRange.Filename != "" {
		constraint, diags := typeexpr.TypeConstraint(block.Type)
		d.errs.diagnose(d.filename, diags)
		if diags.HasErrors() {
			return cty.DynamicVal
		}
		want = constraint
	}
	value := cty.NilVal
	if block.HasDefault.Filename != "" {
		fallback, diags := block.Default.Value(ctx)
		d.errs.diagnose(d.filename, diags)
		value = fallback
		if want == cty.DynamicPseudoType {
			want = looseType(fallback.Type())
		}
	}
	if text, ok := given[block.Name]; ok {
		value = d.override(block, want, text, ctx)
	}
	if value == cty.NilVal {
		d.errs.add(block.Range, "variable %q has no default and was given no value", block.Name)
		return cty.DynamicVal
	}
	converted, err := ctyconvert.Convert(value, want)
	if err != nil {
		d.errs.add(block.Range, "variable %q: %s", block.Name, err)
		return cty.DynamicVal
	}
	return converted
}

// looseType is the type that a default implies for an override: the kind of
// thing, but not how many elements it has.
func looseType(t cty.Type) cty.Type {
	if t.IsPrimitiveType() {
		return t
	}
	return cty.DynamicPseudoType
}

func (d *bundleDecoder) override(block variableBlock, want cty.Type, text string, ctx *hcl.EvalContext) cty.Value {
	if want == cty.String {
		return cty.StringVal(text)
	}
	at := "the value given for variable " + block.Name
	if problem := tooMuch([]byte(text)); problem != "" {
		d.errs.add(block.Range, "%s: %s", at, problem)
		return cty.DynamicVal
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), at, hcl.InitialPos)
	if !diags.HasErrors() {
		var value cty.Value
		if value, diags = expr.Value(ctx); !diags.HasErrors() {
			return value
		}
	}
	d.errs.diagnose(d.filename, diags)
	return cty.DynamicVal
}

// bundleFunctions are the pure ones of those that Nomad's job files know, under
// the same names: nothing that reads a file, the clock or the environment.
func bundleFunctions() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc, "coalesce": stdlib.CoalesceFunc,
		"coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc,
		"contains": stdlib.ContainsFunc, "csvdecode": stdlib.CSVDecodeFunc, "distinct": stdlib.DistinctFunc,
		"element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "floor": stdlib.FloorFunc, "format": stdlib.FormatFunc,
		"formatlist": stdlib.FormatListFunc, "indent": stdlib.IndentFunc, "join": stdlib.JoinFunc,
		"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc,
		"length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc,
		"merge": stdlib.MergeFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "range": stdlib.RangeFunc,
		"regex": stdlib.RegexFunc, "regex_replace": stdlib.RegexReplaceFunc, "regexall": stdlib.RegexAllFunc,
		"replace": stdlib.ReplaceFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc,
		"sort": stdlib.SortFunc, "split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc, "substr": stdlib.SubstrFunc,
		"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,
		"values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
	}
}
