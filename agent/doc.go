// Package agent is PSG on one node: it measures the node and the workloads on
// it, and publishes what it measured. It never decides where a workload runs,
// and it yields when the node is short of CPU. cmd/psg-agent runs it and gives
// it its Publisher.
//
// A Collector reads the kernel's files; docs/agent.md lists them. The node's
// metrics, by the names they have in psg.Telemetry:
//
//	cpu_percent, cpu_steal_percent, cpu_iowait_percent   of all CPUs; steal counts as busy
//	memory_used_mb, memory_available_mb, swap_used_mb    MiB
//	load_1m                                              runnable and blocked tasks, damped over one minute
//	pressure_{cpu,memory,io}_some_avg10_percent          share of the last 10 s in which some task waited, damped
//	pressure_{cpu,memory,io}_{some,full}_percent         share of the time since the reading before
//	disk_{read,write}_mbps, disk_{read,write}_iops       of all disks, MiB and operations per second
//	disk_latency_ms, disk_busy_percent                   mean time of an operation; share of time, of the busiest disk
//	disk/NAME/…                                          the same of one device
//	network_{received,sent}_mbits                        of all interfaces, Mbit per second
//	network_errors_per_s, network_drops_per_s            packets, both directions
//	network/NAME/…                                       the same of one interface
//	tcp_retransmits_per_s, tcp_retransmits_percent       segments sent again, and their share
//	tcp_lost_retransmits_per_s, tcp_timeouts_per_s       segments lost twice; times that no answer came
//	tcp_listen_drops_per_s                               connections refused for want of room
//	agent_degraded                                       1 while the agent collects less often, else 0
//	agent_dropped                                        samples dropped since the agent started
//
// A metric whose source cannot be read is absent. What a workload uses is a Use.
//
// Workloads are found by their control groups, on one hierarchy (v2), several
// (v1) or both at once. A group belongs to an allocation by its name, as Nomad's
// exec and raw_exec drivers and PSG's executor name theirs, or by what Nomad
// tells the processes in it, as for containers. One without processes belongs to
// nobody.
package agent
