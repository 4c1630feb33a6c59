package agent

import (
	"bytes"
	"strings"

	"github.com/psgrid/psg"
)

// owner is whom a control group belongs to; its zero value is nobody known.
type owner struct {
	alloc psg.AllocID
	task  string
}

// ownerByName reads the name that Nomad, its exec and raw_exec drivers and
// PSG's own executor give a task's group: the allocation's UUID, a dot and the
// task; the unified hierarchy has ".scope" at the end.
func ownerByName(name string, unified bool) (owner, bool) {
	if len(name) <= uuidLength+1 || name[uuidLength] != '.' || !isUUID(name[:uuidLength]) {
		return owner{}, false
	}
	task := name[uuidLength+1:]
	if unified {
		task = strings.TrimSuffix(task, ".scope")
	}
	return owner{alloc: psg.AllocID(name[:uuidLength]), task: task}, true
}

const uuidLength = 36

func isUUID[text string | []byte](s text) bool {
	if len(s) != uuidLength {
		return false
	}
	for i := range uuidLength {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
		default:
			return false
		}
	}
	return true
}

// ownerByEnvironment reads what Nomad tells each task's processes, whichever
// driver starts them: containers are in groups that only the driver knows.
func ownerByEnvironment(environ []byte) (alloc, task []byte, ok bool) {
	alloc = variable(environ, "NOMAD_ALLOC_ID=")
	return alloc, variable(environ, "NOMAD_TASK_NAME="), isUUID(alloc)
}

// variable finds a value in /proc/PID/environ, in which each ends with a zero
// byte. One that was cut off is not there.
func variable(environ []byte, name string) []byte {
	for len(environ) > 0 {
		end := bytes.IndexByte(environ, 0)
		if end < 0 {
			return nil
		}
		if len(name) <= end && string(environ[:len(name)]) == name {
			return environ[len(name):end]
		}
		environ = environ[end+1:]
	}
	return nil
}
