# METADATA
# title: GPU colocation
# description: >-
#   Keeps GPU training from crowding out inference. Training may not go where
#   params.max_inference or more inference workloads run, unless it is
#   preemptible. Where inference of the tier params.protected runs, at most one
#   training workload may be on the node, preemptible or not.
package gpu_colocation

inference := [w | some w in input.node.workloads; w.kind == "inference"]

protected := [w | some w in inference; w.tier == data.params.protected]

# Training on the node counts whether or not it uses a GPU: it competes with
# inference for memory and CPU all the same.
training := [w | some w in input.node.workloads; w.kind == "training"]

# A share of a GPU, GPU memory or a MIG slice is GPU training too; milli_gpu
# alone would miss the last two.
gpu_training if {
	input.workload.kind == "training"
	input.workload.gpus > 0
}

preemptible if input.workload.preemptible

preemptible if input.workload.labels.preemptible == "true"

deny contains reason if {
	gpu_training
	not preemptible
	count(inference) >= data.params.max_inference
	reason := sprintf(
		"node %s runs %d inference workloads: from %d on, only preemptible training may join",
		[input.node.name, count(inference), data.params.max_inference],
	)
}

deny contains reason if {
	gpu_training
	count(protected) > 0
	count(training) >= 1
	reason := sprintf(
		"node %s runs %d inference workloads of tier %s beside %d training workloads: at most 1 is allowed there",
		[input.node.name, count(protected), data.params.protected, count(training)],
	)
}
