// A library with the functions of NVML that the agent calls, of two cards that are
// linked, or as many as -DCARDS says. With -DOLD it lacks MIG, as drivers before 450 do.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef CARDS
#define CARDS 2
#endif
static int cards[8] = {0, 1, 2, 3, 4, 5, 6, 7};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = CARDS; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = &cards[i]; return 0; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) { snprintf(version, size, "550.54.15"); return 0; }
int nvmlDeviceGetUUID(int *device, char *uuid, unsigned size) { snprintf(uuid, size, "GPU-sim-%d", *device); return 0; }
int nvmlDeviceGetName(int *device, char *name, unsigned size) { snprintf(name, size, "NVIDIA A100-SXM4-80GB"); return 0; }
int nvmlDeviceGetCudaComputeCapability(int *device, int *major, int *minor) { *major = 8; *minor = 0; return 0; }
int nvmlDeviceGetMaxClockInfo(int *device, int type, unsigned *mhz) { *mhz = type == 1 ? 1410 : 1593; return 0; }
int nvmlDeviceGetPowerManagementLimit(int *device, unsigned *milliwatts) { *milliwatts = 400000; return 0; }
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; };
int nvmlDeviceGetPciInfo_v3(int *device, struct pci *pci) {
	memset(pci, 0, sizeof *pci);
	snprintf(pci->address, sizeof pci->address, "00000000:%02X:00.0", 0x3a + *device);
	return 0;
}
int nvmlDeviceGetRemappedRows(int *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
	*corrected = *uncorrected = *pending = *failed = 0;
	return 0;
}

int nvmlDeviceGetMemoryInfo(int *device, unsigned long long *memory) {
	memory[0] = 80ULL << 30; memory[1] = 79ULL << 30; memory[2] = 1ULL << 30;
	return 0;
}
int nvmlDeviceGetUtilizationRates(int *device, unsigned *use) { use[0] = 40 + *device; use[1] = 7; return 0; }
int nvmlDeviceGetPowerUsage(int *device, unsigned *milliwatts) { *milliwatts = 70000; return 0; }
int nvmlDeviceGetTemperature(int *device, int sensor, unsigned *degrees) { *degrees = 35; return 0; }
// Of the second card some errors could not be corrected.
int nvmlDeviceGetTotalEccErrors(int *device, int kind, int counter, unsigned long long *errors) { *errors = kind ? *device == 1 : 2; return 0; }

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
