# METADATA
# title: Anti-colocation by label
# description: >-
#   Keeps a workload labelled apart_from=NAME off nodes that run any workload, of
#   whatever job, labelled group=NAME, and the other way round.
package anti_colocation

deny contains reason if {
	apart := input.workload.labels[data.params.label]
	some resident in input.node.workloads
	resident.labels[data.params.group] == apart
	reason := sprintf("node %s runs %s, of group %s, which %s keeps apart from", [input.node.name, resident.service, apart, input.workload.service])
}

deny contains reason if {
	group := input.workload.labels[data.params.group]
	some resident in input.node.workloads
	resident.labels[data.params.label] == group
	reason := sprintf("node %s runs %s, which keeps apart from group %s", [input.node.name, resident.service, group])
}
