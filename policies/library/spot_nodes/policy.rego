# METADATA
# title: Spot nodes for preemptible work
# description: >-
#   Keeps workloads that are not preemptible off nodes that may be taken away at
#   any time, and draws the preemptible ones to them.
package spot_nodes

spot if input.node.meta[data.params.meta] == data.params.value

deny contains reason if {
	not input.workload.preemptible
	spot
	reason := sprintf("node %s may be taken away at any time (%s=%s): only preemptible workloads may use it", [input.node.name, data.params.meta, data.params.value])
}

score contains ["spot node", data.params.points] if {
	input.workload.preemptible
	spot
}
