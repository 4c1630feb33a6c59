# METADATA
# title: Compliance and maintenance
# description: >-
#   Keeps workloads labelled compliance=NAME on nodes certified for it,
#   workloads labelled residency=NAME in its regions, and everything off nodes
#   in a maintenance window of the CMDB.
package compliance

certified := {trim_space(name) |
	some name in split(object.get(input.node.meta, data.params.certificates, ""), ",")
}

deny contains reason if {
	wanted := input.workload.labels.compliance
	not wanted in certified
	reason := sprintf("node %s is not certified for %s", [input.node.name, wanted])
}

deny contains reason if {
	wanted := input.workload.labels.residency
	not input.node.region in object.get(data.params.residency, wanted, [])
	reason := sprintf("region %q is outside of %s, where the data must stay", [input.node.region, wanted])
}

deny contains reason if {
	some window in data.cmdb[input.node.name]
	window.start <= input.now
	input.now < window.end
	reason := sprintf("node %s is in a maintenance window", [input.node.name])
}

# A residency that no region is listed for is a mistake in the job.
reject contains reason if {
	wanted := input.workload.labels.residency
	not data.params.residency[wanted]
	known := concat(", ", sort(object.keys(data.params.residency)))
	reason := sprintf("label residency=%s is none of: %s", [wanted, known])
}
