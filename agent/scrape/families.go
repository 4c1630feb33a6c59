package scrape

import (
	"bytes"
	"strings"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
)

const mib = 1 << 20

// family takes one sample of a metric that is known.
type family func(*sums, *sample)

// families are what is taken, by the exporters' names. They are never written to.
var families = map[string]family{
	"DCGM_FI_DEV_GPU_UTIL":            ofCardAndJob("busy_percent", "gpu_busy_percent"),
	"DCGM_FI_DEV_MEM_COPY_UTIL":       ofCard(1, "memory_busy_percent"),
	"DCGM_FI_DEV_FB_USED":             ofCardAndJob("memory_used_mb", "gpu_memory_mb"),
	"DCGM_FI_DEV_FB_FREE":             ofCard(1, "memory_free_mb"),
	"DCGM_FI_DEV_FB_TOTAL":            ofCard(1, "memory_total_mb"),
	"DCGM_FI_DEV_POWER_USAGE":         ofCard(1, "power_watts"),
	"DCGM_FI_DEV_GPU_TEMP":            ofCard(1, "temperature_celsius"),
	"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL":   ofCard(1, "ecc_corrected"),
	"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":   ofCard(1, "ecc_uncorrected"),
	"DCGM_FI_DEV_XID_ERRORS":          ofCard(1, "xid"),
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE":   ofCard(100, "engine_busy_percent"),
	"DCGM_FI_PROF_SM_ACTIVE":          ofCard(100, "sm_busy_percent"),
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ofCard(100, "tensor_busy_percent"),
	"DCGM_FI_PROF_DRAM_ACTIVE":        ofCard(100, "dram_busy_percent"),

	"container_cpu_usage_seconds_total":                ofContainer(100, "container_cpu_percent", true),
	"container_memory_usage_bytes":                     ofContainer(1./mib, "container_memory_mb", false),
	"container_memory_working_set_bytes":               ofContainer(1./mib, "container_working_set_mb", false),
	"container_memory_rss":                             ofContainer(1./mib, "container_rss_mb", false),
	"container_memory_swap":                            ofContainer(1./mib, "container_swap_mb", false),
	"container_network_receive_bytes_total":            ofContainer(8./1e6, "container_network_received_mbits", true),
	"container_network_transmit_bytes_total":           ofContainer(8./1e6, "container_network_sent_mbits", true),
	"container_network_receive_packets_dropped_total":  ofContainer(1, "container_network_drops_per_s", true),
	"container_network_transmit_packets_dropped_total": ofContainer(1, "container_network_drops_per_s", true),
	"container_network_receive_errors_total":           ofContainer(1, "container_network_errors_per_s", true),
	"container_network_transmit_errors_total":          ofContainer(1, "container_network_errors_per_s", true),
	"container_fs_usage_bytes":                         ofContainer(1./mib, "container_filesystem_mb", false),
	"container_processes":                              ofContainer(1, "container_processes", false),
	"container_threads":                                ofContainer(1, "container_threads", false),
	"container_file_descriptors":                       ofContainer(1, "container_open_files", false),
}

// ofCard takes what DCGM says of a card, or of a MIG instance of one. Where the
// exporter was told whose jobs are on a card, it says it once for each of them.
func ofCard(factor float64, metric string) family {
	return func(sums *sums, s *sample) {
		number := s.label("gpu")
		if !isNumber(number) {
			return
		}
		prefix := "gpu/" + string(number) + "/"
		if instance := s.label("GPU_I_ID"); isNumber(instance) {
			prefix += "mig/" + string(instance) + "/"
		}
		sums.set(key{metric: prefix + metric}, s, factor)
	}
}

// ofCardAndJob takes it for the card, and adds it up for the allocation that has
// the card.
func ofCardAndJob(metric, ofAlloc string) family {
	take := ofCard(1, metric)
	return func(sums *sums, s *sample) {
		take(sums, s)
		if job := string(s.label(jobLabel)); agent.IsAllocID(job) {
			sums.add(key{psg.AllocID(job), ofAlloc}, s, 1, false)
		}
	}
}

// jobLabel is where DCGM's exporter says whose job is on a card, if it has a
// directory of files that are named by cards and have job IDs in them
// (DCGM_HPC_JOB_MAPPING_DIR).
const jobLabel = "hpc_job"

// isNumber reports whether a label is the number of a card.
func isNumber(text []byte) bool {
	return len(text) > 0 && len(text) <= 3 && len(bytes.Trim(text, "0123456789")) == 0
}

// ofContainer takes what cAdvisor says of a control group that is a task's.
func ofContainer(factor float64, metric string, counter bool) family {
	return func(sums *sums, s *sample) {
		if alloc, ok := allocOf(s); ok {
			sums.add(key{alloc, metric}, s, factor, counter)
		}
	}
}

// The labels in which cAdvisor tells whose a container is: those that Nomad's
// docker driver gives it, and of its environment if cAdvisor is told to look.
const (
	allocLabel       = "container_label_com_hashicorp_nomad_alloc_id"
	allocEnvironment = "container_env_nomad_alloc_id"
)

// allocOf returns the allocation of a sample. Groups below a task's are part of
// it already, and nobody's here.
func allocOf(s *sample) (psg.AllocID, bool) {
	for _, name := range [...]string{allocLabel, allocEnvironment} {
		if id := s.label(name); agent.IsAllocID(string(id)) {
			return psg.AllocID(id), true
		}
	}
	path := string(s.label("id"))
	if alloc, ok := agent.AllocByGroup(path[strings.LastIndex(path, "/")+1:]); ok {
		return alloc, true
	}
	const idLength = 36 // Nomad names a container TASK-ALLOC
	if name := string(s.label("name")); len(name) > idLength && name[len(name)-idLength-1] == '-' && agent.IsAllocID(name[len(name)-idLength:]) {
		return psg.AllocID(name[len(name)-idLength:]), true
	}
	return "", false
}
