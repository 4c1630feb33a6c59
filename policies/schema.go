package policies

import (
	"embed"
	"encoding/json"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg/hclspec"
)

//go:embed schema/input.json schema/cluster.json
var schemaFiles embed.FS

// InputSchema is the JSON schema of what policies read as input.
func InputSchema() []byte { return schemaFile("schema/input.json") }

// ClusterSchema is the JSON schema of what policies read as data.cluster.
func ClusterSchema() []byte { return schemaFile("schema/cluster.json") }

func schemaFile(name string) []byte {
	data, err := schemaFiles.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("policies: embedded file: %v", err))
	}
	return data
}

// schemas are the published ones, with input.node.agg narrowed to the bundle's
// aggregates: a misspelt one is then a type error too.
func schemas(aggregates []hclspec.Aggregate) *ast.SchemaSet {
	input := decodeSchema(InputSchema())
	node := property(input, "node")["properties"].(map[string]any)
	counts := map[string]any{}
	for _, aggregate := range aggregates {
		counts[aggregate.Name] = map[string]any{"type": "number"}
	}
	if len(counts) == 0 {
		delete(node, "agg")
	} else {
		node["agg"] = map[string]any{"type": "object", "properties": counts}
	}
	set := ast.NewSchemaSet()
	set.Put(ast.SchemaRootRef, input)
	set.Put(clusterSchemaRef(), decodeSchema(ClusterSchema()))
	return set
}

func decodeSchema(data []byte) map[string]any {
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		panic(fmt.Sprintf("policies: embedded schema: %v", err))
	}
	return schema
}

func property(schema map[string]any, name string) map[string]any {
	return schema["properties"].(map[string]any)[name].(map[string]any)
}

func clusterSchemaRef() ast.Ref { return ast.MustParseRef("schema.cluster") }

// annotate has the type checker use the schema of data.cluster in the whole
// module, as a METADATA comment at its head would.
func annotate(module *ast.Module) {
	cluster := &ast.SchemaAnnotation{Path: ast.MustParseRef("data.cluster"), Schema: clusterSchemaRef()}
	for _, annotations := range module.Annotations {
		if annotations.Scope == "package" {
			annotations.Schemas = append(annotations.Schemas, cluster)
			return
		}
	}
	// Only the parser can tie an annotation to a package: take over the one that
	// it tied this to.
	stub := ast.MustParseModuleWithOpts("# METADATA\n# scope: package\n# title: PSG\n"+module.Package.String(),
		ast.ParserOptions{ProcessAnnotation: true, RegoVersion: ast.RegoV1})
	stub.Package.Path, stub.Package.Location = module.Package.Path, module.Package.Location
	module.Package = stub.Package
	annotations := stub.Annotations[0]
	annotations.Schemas = []*ast.SchemaAnnotation{cluster}
	module.Annotations = append(module.Annotations, annotations)
}
