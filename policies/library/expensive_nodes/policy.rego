# METADATA
# title: Expensive nodes last
# description: >-
#   Takes params.cost points from nodes of expensive classes, so that they fill
#   up last, but for the kinds of workloads that params.exempt names.
package expensive_nodes

score contains ["expensive node", 0 - cost] if {
	not input.workload.kind in data.params.exempt
	cost := data.params.cost[input.node.class]
}
