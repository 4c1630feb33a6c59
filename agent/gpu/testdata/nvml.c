// A library with the functions of NVML that the agent calls, of two cards that are
// linked. With -DOLD it lacks MIG, as drivers before 450 do.
#include <unistd.h>

static int cards[2] = {0, 1};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = &cards[i]; return 0; }

int nvmlDeviceGetMemoryInfo(int *device, unsigned long long *memory) {
	memory[0] = 80ULL << 30; memory[1] = 79ULL << 30; memory[2] = 1ULL << 30;
	return 0;
}
int nvmlDeviceGetUtilizationRates(int *device, unsigned *use) { use[0] = 40 + *device; use[1] = 7; return 0; }
int nvmlDeviceGetPowerUsage(int *device, unsigned *milliwatts) { *milliwatts = 70000; return 0; }
int nvmlDeviceGetTemperature(int *device, int sensor, unsigned *degrees) { *degrees = 35; return 0; }
int nvmlDeviceGetTotalEccErrors(int *device, int kind, int counter, unsigned long long *errors) { *errors = 2 - kind; return 0; }

struct process { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
int nvmlDeviceGetComputeRunningProcesses_v3(int *device, unsigned *count, struct process *list) {
	*count = *device == 0;
	if (*count) *list = (struct process){getpid(), 512 << 20, ~0u, ~0u};
	return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(int *device, unsigned *count, struct process *list) { *count = 0; return 0; }

struct sample { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(int *device, struct sample *list, unsigned *count, unsigned long long since) {
	if (!list) { *count = 1; return 7; }
	*list = (struct sample){getpid(), since + 1, 33, 0, 0, 0};
	return 0;
}

int nvmlDeviceGetNvLinkState(int *device, unsigned link, int *state) { *state = 1; return link < 4 ? 0 : 2; }
int nvmlDeviceGetTopologyCommonAncestor(int *a, int *b, int *level) { *level = 50; return 0; }
int nvmlDeviceGetP2PStatus(int *a, int *b, int index, int *status) { *status = 0; return 0; }

#ifndef OLD
int nvmlDeviceGetMigMode(int *device, unsigned *now, unsigned *later) { *now = *later = 0; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(int *device, unsigned *count) { *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(int *device, unsigned i, void **part) { return 6; }
#endif
