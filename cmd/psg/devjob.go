package main

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg/driver/host"
	"github.com/psgrid/psg/shim"
)

// devTasks reads the tasks of each group of a job for the host: gates are the
// psg tasks with a prestart hook, and any other task must have a command, which
// the plugin runs whatever driver the job names.
func devTasks(data []byte) (map[string]host.Alloc, error) {
	var request struct{ Job *api.Job }
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, err
	}
	groups := map[string]host.Alloc{}
	for _, group := range request.Job.TaskGroups {
		var alloc host.Alloc
		for _, task := range group.Tasks {
			prestart := task.Lifecycle != nil && task.Lifecycle.Hook == api.TaskLifecycleHookPrestart
			switch {
			case task.Driver == shim.Driver && prestart:
				alloc.Gates = append(alloc.Gates, host.Task{Name: task.Name, Config: task.Config})
			case task.Driver == shim.Driver:
				alloc.Tasks = append(alloc.Tasks, host.Task{Name: task.Name, Config: task.Config})
			case task.Config["command"] != nil:
				alloc.Tasks = append(alloc.Tasks, host.Task{Name: task.Name, Config: map[string]any{
					"command": task.Config["command"], "args": task.Config["args"],
				}})
			default:
				return nil, fmt.Errorf("task %s on driver %s has no command: the host without nomad cannot run it", task.Name, task.Driver)
			}
		}
		groups[*group.Name] = alloc
	}
	return groups, nil
}
