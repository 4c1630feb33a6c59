# METADATA
# title: Noisy nodes last
# description: >-
#   Takes points from nodes whose CPU is stolen, whose network loses packets,
#   whose NVMe drives have slowed down, or where the agent sees a neighbour harm
#   another, and denies them while the steal is critical. A node that reports no
#   such metric is not judged by it.
package noisy_nodes

telemetry := input.node.telemetry

deny contains reason if {
	telemetry.cpu_steal_percent.p95 > data.params.steal_critical
	reason := sprintf("node %s loses more than %v %% of its CPU to steal", [input.node.name, data.params.steal_critical])
}

score contains ["CPU steal", points] if {
	excess := telemetry.cpu_steal_percent.p95 - data.params.steal_percent
	excess > 0
	points := excess * (0 - data.params.points_per_steal)
}

score contains ["packet loss", points] if {
	telemetry.packet_loss_percent.mean > data.params.loss_percent
	points := telemetry.packet_loss_percent.mean * (0 - data.params.points_per_loss)
}

score contains ["noisy neighbour", points] if {
	telemetry.noisy.last > 0
	points := 0 - data.params.points_for_noisy
}

score contains ["slow NVMe", points] if {
	telemetry.nvme_slowdown.mean > data.params.nvme_slowdown
	points := 0 - nvme_points
}

default nvme_points := 0

nvme_points := data.params.points_for_nvme_io if {
	input.workload.labels.io == "high"
} else := data.params.points_for_nvme
