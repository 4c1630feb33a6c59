# METADATA
# title: Memory overcommit by tier
# description: >-
#   A workload whose memory ceiling (memory_max) does not fit into what is free
#   on a node relies on its neighbours not using theirs: only params.tiers may,
#   and only where projected use leaves headroom.
package memory_overcommit

ceiling := max([input.workload.request.memory_mb, input.workload.request.memory_max_mb])

overcommits if input.node.free.memory_mb < ceiling

deny contains reason if {
	not input.workload.tier in data.params.tiers
	overcommits
	reason := sprintf(
		"node %s has %d MiB free, not the %d MiB that the workload may use, and tier %q may not overcommit memory",
		[input.node.name, input.node.free.memory_mb, ceiling, input.workload.tier],
	)
}

deny contains reason if {
	input.workload.tier in data.params.tiers
	overcommits
	input.node.projection.memory_mb.upper * 100 > input.node.capacity.memory_mb * data.params.headroom_percent
	reason := sprintf(
		"node %s is projected to use %d of %d MiB: too much to overcommit its memory",
		[input.node.name, input.node.projection.memory_mb.upper, input.node.capacity.memory_mb],
	)
}
