package gpu_colocation_test

import data.gpu_colocation

inference(n) := [w |
	some i in numbers.range(1, n)
	w := {"alloc": sprintf("inference-%d", [i]), "kind": "inference", "tier": "silver"}
]

gold := {"alloc": "gold", "kind": "inference", "tier": "gold"}

training := {"alloc": "training", "kind": "training", "tier": "silver"}

job := {"kind": "training", "gpus": 1, "milli_gpu": 1000, "preemptible": false, "labels": {}}

on(workload, residents) := {"workload": workload, "node": {"id": "n1", "name": "node-1", "workloads": residents}}

test_training_joins_two_inference if {
	count(gpu_colocation.deny) == 0 with input as on(job, inference(2))
}

test_training_joins_empty_node if {
	count(gpu_colocation.deny) == 0 with input as on(job, [])
}

test_training_denied_beside_three_inference if {
	reasons := gpu_colocation.deny with input as on(job, inference(3))
	reasons == {"node node-1 runs 3 inference workloads: from 3 on, only preemptible training may join"}
}

test_training_denied_beside_more_inference if {
	count(gpu_colocation.deny) == 1 with input as on(job, inference(7))
}

test_limit_is_a_parameter if {
	count(gpu_colocation.deny) == 0 with input as on(job, inference(7))
		with data.params.max_inference as 8
	count(gpu_colocation.deny) == 1 with input as on(job, inference(1))
		with data.params.max_inference as 1
}

test_preemptible_by_stanza_joins if {
	count(gpu_colocation.deny) == 0 with input as on(object.union(job, {"preemptible": true}), inference(3))
}

test_preemptible_by_label_joins if {
	labelled := object.union(job, {"labels": {"preemptible": "true"}})
	count(gpu_colocation.deny) == 0 with input as on(labelled, inference(3))
}

test_label_must_say_true if {
	labelled := object.union(job, {"labels": {"preemptible": "false"}})
	count(gpu_colocation.deny) == 1 with input as on(labelled, inference(3))
}

test_training_without_gpu_unaffected if {
	without := object.union(job, {"gpus": 0, "milli_gpu": 0})
	count(gpu_colocation.deny) == 0 with input as on(without, array.concat(inference(5), [gold, training]))
}

test_training_by_gpu_memory_or_profile_is_gpu_training if {
	by_memory := object.union(job, {"gpus": 1, "milli_gpu": 0})
	count(gpu_colocation.deny) == 1 with input as on(by_memory, inference(3))
}

test_inference_unaffected if {
	other := object.union(job, {"kind": "inference"})
	count(gpu_colocation.deny) == 0 with input as on(other, array.concat(inference(5), [gold, training]))
}

test_first_training_joins_gold if {
	count(gpu_colocation.deny) == 0 with input as on(job, [gold])
}

test_second_training_denied_beside_gold if {
	reasons := gpu_colocation.deny with input as on(job, [gold, training])
	reasons == {"node node-1 runs 1 inference workloads of tier gold beside 1 training workloads: at most 1 is allowed there"}
}

test_second_training_denied_beside_gold_though_preemptible if {
	preemptible := object.union(job, {"preemptible": true, "labels": {"preemptible": "true"}})
	count(gpu_colocation.deny) == 1 with input as on(preemptible, [gold, training])
}

test_gold_among_others_counts if {
	preemptible := object.union(job, {"preemptible": true})
	count(gpu_colocation.deny) == 0 with input as on(preemptible, array.concat(inference(4), [gold]))
	count(gpu_colocation.deny) == 1 with input as on(preemptible, array.concat(inference(4), [gold, training]))
}

test_gold_training_is_no_gold_inference if {
	count(gpu_colocation.deny) == 0 with input as on(job, [object.union(training, {"tier": "gold"})])
}

test_both_reasons_are_given if {
	count(gpu_colocation.deny) == 2 with input as on(job, array.concat(inference(3), [gold, training]))
}

test_second_training_joins_without_gold if {
	count(gpu_colocation.deny) == 0 with input as on(job, array.concat(inference(2), [training, training]))
}
