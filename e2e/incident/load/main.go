// Command load is both sides of an incident: a service that does a fixed piece of
// work for each request, and a neighbour that does as much as it can.
//
//	load victim KIND ADDRESS FILE       serves GET / until it is ended
//	load antagonist KIND FILE STATUS    works from SIGUSR1 on
//	load bystander                      keeps a third of a core busy
//
// KIND is cpu, memory or io. An antagonist writes how many pieces of work it has
// done to STATUS, eight bytes. At SIGTERM it ends at once; with FINISHING=1 in its
// environment it finishes what it does, for up to two seconds, and saves its state.
package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "victim":
		return victim(args[1], args[2], args[3])
	case len(args) == 4 && args[0] == "antagonist":
		return antagonist(args[1], args[2], args[3])
	case len(args) == 1 && args[0] == "bystander":
		for {
			spin(3)
			time.Sleep(6 * time.Millisecond)
		}
	}
	return fmt.Errorf("arguments %q", args)
}

const (
	mib  = 1 << 20
	page = 4096
)

// spin keeps a core busy for about as many milliseconds of a core that is free.
func spin(milliseconds int) {
	x := uint64(rand.Uint32()) | 1
	for range milliseconds * 700_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	runtime.KeepAlive(x)
}

// victim serves requests, each of a fixed piece of work.
func victim(kind, address, file string) error {
	work, err := piece(kind, file)
	if err != nil {
		return err
	}
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := work(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
}

// The victim's files, and what it reads of them for each request.
const (
	hotMB, hotPages       = 24, 192 // through the page cache
	directMB, directReads = 64, 4   // past it
)

func piece(kind, file string) (func() error, error) {
	switch kind {
	case "cpu":
		return func() error { spin(6); return nil }, nil
	case "memory":
		f, err := create(file, hotMB, 0)
		return func() error { return readPages(f, hotMB, hotPages) }, err
	case "io":
		f, err := create(file, directMB, syscall.O_DIRECT)
		return func() error { return readPages(f, directMB, directReads) }, err
	}
	return nil, fmt.Errorf("kind %q", kind)
}

// reuse opens a file that is there at its full size already, or makes it.
func reuse(name string, sizeMB int, how int) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.Size() == int64(sizeMB)*mib {
		return os.OpenFile(name, os.O_RDWR|how, 0o600)
	}
	return create(name, sizeMB, how)
}

// create makes a file of some size, with blocks behind all of it.
func create(name string, sizeMB int, how int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC|how, 0o600)
	if err != nil {
		return nil, err
	}
	block := aligned(mib)
	for i := range block {
		block[i] = byte(rand.Uint32())
	}
	for i := range sizeMB {
		if _, err := f.WriteAt(block, int64(i)*mib); err != nil {
			return nil, err
		}
	}
	return f, f.Sync()
}

// aligned is a buffer that direct I/O takes.
func aligned(size int) []byte {
	block, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err) // out of memory
	}
	return block
}

func readPages(f *os.File, sizeMB, n int) error {
	block := aligned(page)
	defer syscall.Munmap(block)
	for range n {
		at := rand.Int64N(int64(sizeMB)*mib/page) * page
		if _, err := f.ReadAt(block, at); err != nil {
			return err
		}
	}
	return nil
}

// antagonist works with as many threads as its kind takes, from SIGUSR1 on.
func antagonist(kind, file, status string) error {
	begin, end := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	signal.Notify(end, syscall.SIGTERM)
	unit, threads, err := unit(kind, file)
	if err != nil {
		return err
	}
	done, err := os.OpenFile(status, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := tell(done, 0); err != nil { // it is ready
		return err
	}
	select {
	case <-begin:
	case <-end:
		return nil
	}
	began := time.Now()
	var units atomic.Uint64
	var stopped atomic.Bool
	failed := make(chan error, threads)
	for i := range threads {
		go func() {
			var err error
			for err == nil && !stopped.Load() {
				if err = unit(i); err == nil {
					err = tell(done, units.Add(1))
				}
			}
			failed <- err
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-end:
	}
	if os.Getenv("FINISHING") == "" {
		return nil
	}
	time.Sleep(finishing - time.Since(began)%finishing)
	stopped.Store(true)
	_, err = create(status+".saved", 4, 0)
	return err
}

// finishing is how long one piece of work is that an antagonist finishes.
const finishing = 2 * time.Second

func tell(status *os.File, units uint64) error {
	var text [8]byte
	binary.LittleEndian.PutUint64(text[:], units)
	_, err := status.WriteAt(text[:], 0)
	return err
}

const (
	cpuThreads       = 8
	streamMB         = 768
	streamThreads    = 4
	directThreads    = 32
	antagonistMB     = 256
	unitMilliseconds = 20
)

// unit is one piece of an antagonist's work, and on how many threads it is done
// at once.
func unit(kind, file string) (work func(thread int) error, threads int, err error) {
	switch kind {
	case "cpu":
		return func(int) error { spin(unitMilliseconds); return nil }, cpuThreads, nil
	case "memory":
		f, err := reuse(file, streamMB, 0)
		return func(int) error { return stream(f, false) }, streamThreads, err
	case "io":
		f, err := reuse(file, antagonistMB, syscall.O_DIRECT)
		return func(thread int) error { return stream(f, thread%2 == 0) }, directThreads, err
	}
	return nil, 0, fmt.Errorf("kind %q", kind)
}

// stream reads, or overwrites, 8 MiB of a file at a place of it, twice: what is
// read again counts as in use.
func stream(f *os.File, overwrite bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	block := aligned(mib)
	defer syscall.Munmap(block)
	from := rand.Int64N(info.Size()/mib-8) * mib
	for range 2 {
		for i := range int64(8) {
			if overwrite {
				_, err = f.WriteAt(block, from+i*mib)
			} else {
				_, err = f.ReadAt(block, from+i*mib)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
