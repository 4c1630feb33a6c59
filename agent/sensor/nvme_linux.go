package sensor

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// adminCommand is the kernel's struct nvme_passthru_cmd (linux/nvme_ioctl.h).
type adminCommand struct {
	opcode, flags       uint8
	_                   uint16
	namespace           uint32
	_, _                uint32 // dwords 2 and 3
	metadata, address   uint64
	metadataLen, length uint32
	dword10             uint32
	_                   [5]uint32
	timeoutMs           uint32
	result              uint32
}

const (
	ioctlAdmin    = 0xC0484E41 // NVME_IOCTL_ADMIN_CMD: read and write, 72 bytes, 'N', 0x41
	getLogPage    = 0x02
	logHealth     = 0x02
	allNamespaces = 0xFFFFFFFF
)

// readHealth asks a drive for its health log.
func readHealth(device string) ([]byte, error) {
	file, err := os.OpenFile(device, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	log := make([]byte, healthSize)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&log[0])
	command := adminCommand{
		opcode: getLogPage, namespace: allNamespaces,
		address: uint64(uintptr(unsafe.Pointer(&log[0]))), length: healthSize,
		dword10:   logHealth | (healthSize/4-1)<<16,
		timeoutMs: 2000,
	}
	status, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), ioctlAdmin, uintptr(unsafe.Pointer(&command)))
	switch {
	case errno != 0:
		return nil, fmt.Errorf("ask %s: %w", device, errno)
	case status != 0:
		return nil, fmt.Errorf("ask %s: the drive answers with status 0x%x", device, status)
	}
	return log, nil
}
