package hclspec

import (
	"strings"
	"testing"
)

func TestCheckDigits_BoundsWhatANumberTakesWrittenOut(t *testing.T) {
	for number, ok := range map[string]bool{
		"0": true, "-12.5": true, "1e308": true, "5e-324": true, "1E+999": true, "1e-999": true, strings.Repeat("7", 1000): true,
		"1e1000": false, "1e-1000": false, "-1E-30000": false, "1e999999999": false, "1e-99999999999999999999": false,
		strings.Repeat("7", 1001): false, "0." + strings.Repeat("7", 999): false, strings.Repeat("7", 990) + "e11": false, "0e9999": false,
	} {
		if err := CheckDigits(number); (err == nil) != ok || err != nil && len(err.Error()) > 100 {
			t.Errorf("%.20s (%d bytes): %v", number, len(number), err)
		}
	}
}

// Each of these would take minutes, or all memory, to write out.
func TestParseBundle_RefusesNumbersBeyondReason(t *testing.T) {
	const policy = "policy \"p\" {\n  rego   = \"p.rego\"\n  params = { a = [1, { \"b c\" = %s }] }\n}\n"
	for name, c := range map[string]struct {
		text  string
		value []Variable
		want  string
	}{
		"param":     {strings.Replace(policy, "%s", "1e9999999", 1), nil, `b:1:1: line 4: 1e9999999 is a number of more than 1000 digits`},
		"long":      {strings.Replace(policy, "%s", strings.Repeat("7", 200_000), 1), nil, `b:1:1: line 4: 77777777777777777777… is a number`},
		"small":     {strings.Replace(policy, "%s", "-1e-99999999", 1), nil, `1e-99999999 is a number of more than 1000 digits`},
		"product":   {strings.Replace(policy, "%s", strings.Repeat("1e900 * ", 9)+"1", 1), nil, `b:4:12: policy "p": params.a[1]["b c"] is a number of more than 1000 digits`},
		"read":      {strings.Replace(policy, "%s", `jsondecode("1e99999999")`, 1), nil, `policy "p": params.a[1]["b c"] is a number`},
		"converted": {"variable \"v\" {\n  type    = number\n  default = \"1e99999999\"\n}\n" + strings.Replace(policy, "%s", "var.v", 1), nil, `params.a[1]["b c"] is a number`},
		"text":      {strings.Replace(policy, "%s", `"x${1e9999999}"`, 1), nil, `line 4: 1e9999999 is a number`},
		"infinite":  {strings.Replace(policy, "%s", `jsondecode("1e999999999")`, 1), nil, `params.a[1]["b c"] is a number`},
		"weight":    {"policy \"p\" {\n  rego   = \"p.rego\"\n  weight = jsondecode(\"1e99999999\")\n}\n", nil, `b:4:12: Unsuitable value type`},
		"guarantee": {"tenant \"t\" {\n  guarantee = { cpu = jsondecode(\"1e99999999\") }\n}\n", nil, `b:3:15: Unsuitable value type`},
		"given": {"variable \"v\" {\n  default = 1\n}\n" + strings.Replace(policy, "%s", "var.v", 1), []Variable{{"v", "1e9999999"}},
			`the value given for variable v: line 1: 1e9999999 is a number of more than 1000 digits`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseBundle("b", []byte("bundle \"b\" {}\n"+c.text), c.value...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestParseBundle_KeepsLargeNumbers(t *testing.T) {
	bundle, err := ParseBundle("b", []byte("bundle \"b\" {}\npolicy \"p\" {\n  rego   = \"p.rego\"\n  params = { large = 1e308, small = -5e-324, third = 1/3 }\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := bundle.Policies[0].Params; len(got) != 3 {
		t.Errorf("%v", got)
	}
}
