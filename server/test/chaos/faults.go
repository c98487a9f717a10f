package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// faults injects one fault after the other. Faults last for a while, so several are in force at a time.
type faults struct {
	site   *site
	random *rand.Rand
	kinds  []fault

	mu     sync.Mutex
	counts map[string]int
	latest string
}

// fault is a kind of fault. inject may block until the fault has ended.
type fault struct {
	name   string
	most   time.Duration // its maximum duration; 0 if it takes no time
	inject func(ctx context.Context, v *server, lasts time.Duration)
}

func newFaults(s *site, random *rand.Rand) *faults {
	away := func(p *proxy, m mode) func(context.Context, *server, time.Duration) {
		return func(ctx context.Context, _ *server, lasts time.Duration) {
			p.set(m)
			pause(ctx, lasts)
			p.set(pass)
		}
	}
	return &faults{site: s, random: random, counts: map[string]int{}, kinds: []fault{
		{"server killed", 0, func(_ context.Context, v *server, _ time.Duration) { v.signal(syscall.SIGKILL) }},
		{"server terminated", 0, func(_ context.Context, v *server, _ time.Duration) { v.signal(syscall.SIGTERM) }},
		{"server stopped and continued", 15 * time.Second, func(ctx context.Context, v *server, lasts time.Duration) {
			v.signal(syscall.SIGSTOP)
			pause(ctx, lasts)
			v.signal(syscall.SIGCONT)
		}},
		{"plugin killed", 0, func(_ context.Context, v *server, _ time.Duration) { killChildren(v.pid()) }},
		{"API server refuses", 20 * time.Second, away(s.api, refuse)},
		{"API server hangs", 10 * time.Second, away(s.api, hang)},
		{"S3 refuses", 20 * time.Second, away(s.s3, refuse)},
		{"S3 hangs", 10 * time.Second, away(s.s3, hang)},
	}}
}

// run injects faults until ctx ends. At most one fault of each kind is in force.
func (f *faults) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	busy := make([]chan struct{}, len(f.kinds))
	for i := range busy {
		busy[i] = make(chan struct{}, 1)
	}
	for pause(ctx, time.Duration(500+f.random.IntN(5000))*time.Millisecond) {
		n := f.random.IntN(len(f.kinds))
		kind, v := f.kinds[n], f.site.servers[f.random.IntN(len(f.site.servers))]
		lasts := time.Duration(0)
		if kind.most > 0 {
			lasts = time.Duration(f.random.Int64N(int64(kind.most)))
		}
		select {
		case busy[n] <- struct{}{}:
		default:
			continue
		}
		f.note(kind.name, lasts)
		all.Go(func() {
			kind.inject(ctx, v, lasts)
			<-busy[n]
		})
	}
}

func (f *faults) note(name string, lasts time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[name]++
	f.latest = name
	if lasts > 0 {
		f.latest = fmt.Sprintf("%s for %s", name, lasts.Round(time.Millisecond))
	}
}

func (f *faults) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

func (f *faults) total() (sum int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.counts {
		sum += n
	}
	return sum
}

func (f *faults) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.counts))
}

func (f *faults) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[name]
}

// killChildren kills the plugins of a server, which are its child processes.
func killChildren(server int) {
	if server == 0 {
		return
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name of the program, in parentheses, may contain spaces.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(server) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
