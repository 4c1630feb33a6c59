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

denied(workload, residents) := denied_from(3, workload, residents)

denied_from(limit, workload, residents) := reasons if {
	reasons := gpu_colocation.deny with input as on(workload, residents)
		with data.params as {"max_inference": limit, "protected": "gold"}
}

test_training_joins_two_inference if {
	count(denied(job, inference(2))) == 0
}

test_training_joins_empty_node if {
	count(denied(job, [])) == 0
}

test_training_denied_beside_three_inference if {
	denied(job, inference(3)) == {"node node-1 runs 3 inference workloads: from 3 on, only preemptible training may join"}
}

test_training_denied_beside_more_inference if {
	count(denied(job, inference(7))) == 1
}

test_limit_is_a_parameter if {
	count(denied_from(8, job, inference(7))) == 0
	count(denied_from(1, job, inference(1))) == 1
}

test_preemptible_by_stanza_joins if {
	count(denied(object.union(job, {"preemptible": true}), inference(3))) == 0
}

test_preemptible_by_label_joins if {
	labelled := object.union(job, {"labels": {"preemptible": "true"}})
	count(denied(labelled, inference(3))) == 0
}

test_label_must_say_true if {
	labelled := object.union(job, {"labels": {"preemptible": "false"}})
	count(denied(labelled, inference(3))) == 1
}

test_training_without_gpu_unaffected if {
	without := object.union(job, {"gpus": 0, "milli_gpu": 0})
	count(denied(without, array.concat(inference(5), [gold, training]))) == 0
}

test_training_by_gpu_memory_or_profile_is_gpu_training if {
	by_memory := object.union(job, {"gpus": 1, "milli_gpu": 0})
	count(denied(by_memory, inference(3))) == 1
}

test_inference_unaffected if {
	other := object.union(job, {"kind": "inference"})
	count(denied(other, array.concat(inference(5), [gold, training]))) == 0
}

test_first_training_joins_gold if {
	count(denied(job, [gold])) == 0
}

test_second_training_denied_beside_gold if {
	denied(job, [gold, training]) == {"node node-1 runs 1 inference workloads of tier gold beside 1 training workloads: at most 1 is allowed there"}
}

test_second_training_denied_beside_gold_though_preemptible if {
	preemptible := object.union(job, {"preemptible": true, "labels": {"preemptible": "true"}})
	count(denied(preemptible, [gold, training])) == 1
}

test_gold_among_others_counts if {
	preemptible := object.union(job, {"preemptible": true})
	count(denied(preemptible, array.concat(inference(4), [gold]))) == 0
	count(denied(preemptible, array.concat(inference(4), [gold, training]))) == 1
}

test_gold_training_is_no_gold_inference if {
	count(denied(job, [object.union(training, {"tier": "gold"})])) == 0
}

test_both_reasons_are_given if {
	count(denied(job, array.concat(inference(3), [gold, training]))) == 2
}

test_second_training_joins_without_gold if {
	count(denied(job, array.concat(inference(2), [training, training]))) == 0
}
