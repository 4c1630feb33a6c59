package driver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/psgrid/psg/driver/executor"
)

// commandSpec is what to run for a task whose gate has opened.
func commandSpec(t Task, granted []string) (executor.Spec, error) {
	env := environment(t.Env, granted)
	path, err := findProgram(t, env)
	if err != nil {
		return executor.Spec{}, err
	}
	runAs, err := lookUpUser(t.User)
	if err != nil {
		return executor.Spec{}, err
	}
	limits := t.Limits
	if limits.Name == "" {
		limits.Name = string(t.Alloc) + "." + t.Name
	}
	return executor.Spec{
		Path: path, Args: t.Stanza.Args, Env: env, Dir: t.Dir(), User: runAs,
		Stdout: t.Stdout, Stderr: t.Stderr, Within: t.AllocDir, NetNS: t.NetNS, Limits: limits,
	}, nil
}

// environment is the task's variables overlaid by what was granted, sorted.
func environment(base map[string]string, granted []string) []string {
	merged := make(map[string]string, len(base)+len(granted))
	for key, value := range base {
		merged[key] = value
	}
	for _, entry := range granted {
		key, value, _ := strings.Cut(entry, "=")
		merged[key] = value
	}
	env := make([]string, 0, len(merged))
	for key, value := range merged {
		env = append(env, key+"="+value)
	}
	slices.Sort(env)
	return env
}

// findProgram finds a command as Nomad's raw_exec does: an absolute path, a
// file in the task's directories, then the search path. A file in the task's
// directories need not be executable yet.
func findProgram(t Task, env []string) (string, error) {
	name := t.Stanza.Command
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		candidates = []string{filepath.Join(t.Dir(), "local", name), filepath.Join(t.Dir(), name)}
	}
	for _, path := range candidates {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 == 0 {
			if err := makeExecutable(t.AllocDir, path); err != nil {
				return "", fmt.Errorf("command %q is not executable: %w", path, err)
			}
		}
		return path, nil
	}
	if !strings.Contains(name, "/") {
		if path, ok := search(name, env); ok {
			return path, nil
		}
	}
	return "", fmt.Errorf("command %q not found in the task's directories or in PATH", name)
}

// makeExecutable sets the mode of a program, but of none that is outside the
// allocation's directory, be it through a symbolic link that a task has put there.
func makeExecutable(allocDir, path string) error {
	below, err := filepath.Rel(allocDir, path)
	if err != nil || !filepath.IsLocal(below) {
		return errors.New("it is not the task's own")
	}
	root, err := os.OpenRoot(allocDir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Chmod(below, 0o755)
}

// search looks for a program in the task's search path, or the driver's where
// the task has none.
func search(name string, env []string) (string, bool) {
	dirs := os.Getenv("PATH")
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok && value != "" {
			dirs = value
		}
	}
	for _, dir := range filepath.SplitList(dirs) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && filepath.IsAbs(path) {
			return path, true
		}
	}
	return "", false
}

// checkUser says early what lookUpUser would say late.
func checkUser(name string) error {
	_, err := lookUpUser(name)
	return err
}

// lookUpUser is whom to run as; nil means the driver's own user.
func lookUpUser(name string) (*executor.User, error) {
	if name == "" {
		return nil, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	if int(uid) == os.Getuid() {
		return nil, nil
	}
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("user %q: only a driver that runs as root can switch users", name)
	}
	result := &executor.User{UID: uint32(uid)}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", name, err)
	}
	for _, text := range append([]string{found.Gid}, ids...) {
		gid, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("groups of user %q: %w", name, err)
		}
		result.Groups = append(result.Groups, uint32(gid))
	}
	result.GID = result.Groups[0]
	return result, nil
}
