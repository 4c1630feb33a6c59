package hclspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// maxBundleSize bounds a bundle.hcl in bytes; with maxDepth it bounds the stack
// that HCL's recursive parser takes.
const maxBundleSize = 256 << 10

// ParseBundle reads a bundle.hcl. Every error carries the position under
// filename; on any error nothing is returned but a BundleErrors.
func ParseBundle(filename string, src []byte, variables ...Variable) (Bundle, error) {
	d := &bundleDecoder{filename: filename, seen: map[[2]string]hcl.Range{}}
	bundle := d.decode(src, variables)
	if d.errs != nil {
		d.errs.sort()
		return Bundle{}, d.errs
	}
	return bundle, nil
}

type bundleDecoder struct {
	filename string
	errs     BundleErrors
	seen     map[[2]string]hcl.Range // kind and name of each block, to where it is
}

type bundleFile struct {
	Bundle     *headBlock       `hcl:"bundle,block"`
	Policies   []policyBlock    `hcl:"policy,block"`
	Aggregates []aggregateBlock `hcl:"aggregate,block"`
	Tenants    []tenantBlock    `hcl:"tenant,block"`
	Limits     []limitBlock     `hcl:"limit,block"`
	Data       []dataBlock      `hcl:"data,block"`
}

type headBlock struct {
	Name      string    `hcl:"name,label"`
	NameRange hcl.Range `hcl:"name,label_range"`
	Version   string    `hcl:"version,optional"`
}

type policyBlock struct {
	Name        string      `hcl:"name,label"`
	NameRange   hcl.Range   `hcl:"name,label_range"`
	Range       hcl.Range   `hcl:",def_range"`
	Rego        string      `hcl:"rego"`
	RegoRange   hcl.Range   `hcl:"rego,attr_value_range"`
	Mode        string      `hcl:"mode,optional"`
	ModeRange   hcl.Range   `hcl:"mode,attr_value_range"`
	Params      cty.Value   `hcl:"params,optional"`
	ParamsRange hcl.Range   `hcl:"params,attr_value_range"`
	Weight      *int64      `hcl:"weight,optional"`
	WeightRange hcl.Range   `hcl:"weight,attr_value_range"`
	Scope       *scopeBlock `hcl:"scope,block"`
}

type scopeBlock struct {
	Namespaces []string `hcl:"namespaces,optional"`
	Tenants    []string `hcl:"tenants,optional"`
	Tiers      []string `hcl:"tiers,optional"`
	Kinds      []string `hcl:"kinds,optional"`
}

func (d *bundleDecoder) decode(src []byte, overrides []Variable) Bundle {
	start := hcl.Range{Filename: d.filename, Start: hcl.InitialPos}
	if problem := tooMuch(src); problem != "" {
		d.errs.add(start, "%s", problem)
		return Bundle{}
	}
	parsed, diags := hclsyntax.ParseConfig(src, d.filename, hcl.InitialPos)
	if diags.HasErrors() {
		d.errs.diagnose(d.filename, diags)
		return Bundle{}
	}
	rest, ctx := d.variables(parsed.Body, overrides)
	if d.errs != nil {
		return Bundle{}
	}
	var file bundleFile
	d.errs.diagnose(d.filename, gohcl.DecodeBody(rest, ctx, &file))
	if d.errs != nil {
		return Bundle{}
	}
	if file.Bundle == nil {
		d.errs.add(start, `no bundle block: begin with bundle "NAME" { version = "…" }`)
		return Bundle{}
	}
	d.identifier("bundle", file.Bundle.Name, file.Bundle.NameRange)
	bundle := Bundle{Name: file.Bundle.Name, Version: file.Bundle.Version}
	for _, block := range file.Policies {
		bundle.Policies = append(bundle.Policies, d.policy(block))
	}
	for _, block := range file.Aggregates {
		bundle.Aggregates = append(bundle.Aggregates, d.aggregate(block))
	}
	for _, block := range file.Tenants {
		bundle.Tenants = append(bundle.Tenants, d.tenant(block))
	}
	for _, block := range file.Limits {
		bundle.Limits = append(bundle.Limits, d.limit(block))
	}
	for _, block := range file.Data {
		bundle.Sources = append(bundle.Sources, d.source(block))
	}
	return bundle
}

func (d *bundleDecoder) policy(block policyBlock) Policy {
	d.once("policy", block.Name, block.Range)
	d.identifier("policy", block.Name, block.NameRange)
	policy := Policy{Name: block.Name, Rego: path.Clean(block.Rego), Mode: Mode(block.Mode), Weight: 1, Pos: position(block.Range)}
	if !strings.HasSuffix(policy.Rego, ".rego") || strings.HasSuffix(policy.Rego, "_test.rego") ||
		path.IsAbs(policy.Rego) || strings.HasPrefix(policy.Rego, "../") || strings.ContainsAny(policy.Rego, "\\\x00") {
		d.errs.add(block.RegoRange, "policy %q: rego must be the path of a .rego file within the bundle, not a test: got %q", block.Name, block.Rego)
	}
	policy.Mode = oneOf(d, block.ModeRange, "mode", policy.Mode, Enforce, Audit)
	if block.Weight != nil {
		policy.Weight = *block.Weight
		if policy.Weight < 0 || policy.Weight > 1000 {
			d.errs.add(block.WeightRange, "policy %q: weight %d is outside 0..1000", block.Name, policy.Weight)
		}
	}
	policy.Params = d.params(block)
	if s := block.Scope; s != nil {
		policy.Scope = Scope(*s)
	}
	return policy
}

// params converts to JSON's types, which are what Rego knows.
func (d *bundleDecoder) params(block policyBlock) map[string]any {
	params := map[string]any{}
	if block.ParamsRange.Filename == "" || block.Params.IsNull() {
		return params
	}
	if t := block.Params.Type(); !t.IsObjectType() && !t.IsMapType() {
		d.errs.add(block.ParamsRange, "policy %q: params must be an object such as { limit = 3 }, not %s", block.Name, t.FriendlyName())
		return params
	}
	if !d.digits(block.Params, block.ParamsRange, fmt.Sprintf("policy %q: params", block.Name)) {
		return params
	}
	encoded, err := ctyjson.Marshal(block.Params, block.Params.Type())
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(encoded))
		decoder.UseNumber()
		err = decoder.Decode(&params)
	}
	if err != nil {
		d.errs.add(block.ParamsRange, "policy %q: params: %s", block.Name, err)
	}
	return params
}

// once reports the second use of a name for one kind of block, with the place
// of the first.
func (d *bundleDecoder) once(kind, name string, at hcl.Range) bool {
	key := [2]string{kind, name}
	if first, ok := d.seen[key]; ok {
		d.errs.add(at, "%s %q is declared twice: first at %s", kind, name, position(first))
		return false
	}
	d.seen[key] = at
	return true
}

var (
	nameSyntax       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	identifierSyntax = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (d *bundleDecoder) identifier(kind, name string, at hcl.Range) {
	if !nameSyntax.MatchString(name) {
		d.errs.add(at, "%s name %q: letters, digits, _, - and . only", kind, name)
	}
}

// oneOf checks an optional word; the first of the known ones is the default.
func oneOf[T ~string](d *bundleDecoder, at hcl.Range, argument string, value T, known ...T) T {
	if at.Filename == "" {
		return known[0]
	}
	if !slices.Contains(known, value) {
		d.errs.add(at, "%s is %q, but must be one of %s%s", argument, value, quoted(known),
			DidYouMean(string(value), names(known, func(t T) string { return string(t) })))
	}
	return value
}

func quoted[T ~string](words []T) string {
	return strings.Join(names(words, func(t T) string { return fmt.Sprintf("%q", string(t)) }), ", ")
}

func names[T any](items []T, name func(T) string) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = name(item)
	}
	return out
}

// maxDepth is far beyond what people nest.
const maxDepth = 64

// tooMuch says why a source is not given to HCL's parser, which recurses and
// calculates without a limit of its own; empty means it may be.
func tooMuch(src []byte) string {
	if len(src) > maxBundleSize {
		return fmt.Sprintf("%d bytes are more than the %d allowed", len(src), maxBundleSize)
	}
	// Whatever is wrong with the tokens, the parser says better.
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	depth, signs := 0, 0
	for _, token := range tokens {
		switch token.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			depth--
		case hclsyntax.TokenNumberLit:
			if err := CheckDigits(string(token.Bytes)); err != nil {
				return fmt.Sprintf("line %d: %v", token.Range.Start.Line, err)
			}
		}
		signs++
		if token.Type != hclsyntax.TokenBang && token.Type != hclsyntax.TokenMinus {
			signs = 0
		}
		if depth > maxDepth || signs > maxDepth {
			return fmt.Sprintf("line %d: nested more than %d deep", token.Range.Start.Line, maxDepth)
		}
	}
	return ""
}
