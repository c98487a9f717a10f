// Command follower is the part of the server that poll_cost_10k measures: a plugin host, and the monitor of 10,000
// operations. It prints the cost to its process as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

const (
	backups   = 20
	perBackup = 500
)

// cost is the cost of the monitor during the measurement.
type cost struct {
	CPU     float64 // seconds per minute
	Polls   float64 // per minute
	Calls   float64 // per minute, in which the polls were made
	RSSIdle int     // KiB, without operations
	RSS     int     // KiB at the end
}

func main() {
	plugins := flag.String("plugins", "", "directory with the plugin longwork")
	backup := flag.String("backup", "", "JSON of a Backup")
	settle := flag.Duration("settle", 12*time.Second, "time before the measurement")
	span := flag.Duration("for", 20*time.Second, "time of the measurement")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c, err := measure(ctx, *plugins, *backup, *settle, *span)
	stop()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "follower:", err)
		os.Exit(1)
	}
}

// counted counts the polls, and their calls.
type counted struct {
	operation.Plugins
	polls, calls *atomic.Int64
	failed       *atomic.Value
}

func (c counted) ProgressOfMany(
	ctx context.Context, owner *operation.Owner, action string, ids []string,
) (map[string]framework.OperationProgress, error) {
	c.calls.Add(1)
	answers, err := c.Plugins.ProgressOfMany(ctx, owner, action, ids)
	c.polls.Add(int64(len(answers)))
	c.note(ctx, err)
	return answers, err
}

func (c counted) Progress(
	ctx context.Context, owner *operation.Owner, action, id string,
) (framework.OperationProgress, error) {
	c.polls.Add(1)
	c.calls.Add(1)
	p, err := c.Plugins.Progress(ctx, owner, action, id)
	c.note(ctx, err)
	return p, err
}

func (c counted) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.failed.Store(err)
	}
}

func measure(ctx context.Context, plugins, backup string, settle, span time.Duration) (c cost, err error) {
	metrics := prometheus.NewRegistry()
	host, err := pluginhost.New(ctx, pluginhost.Config{Dir: plugins, Log: hclog.NewNullLogger(), Metrics: metrics})
	if err != nil {
		return c, err
	}
	defer host.Close()
	polled := counted{operation.NewPlugins(host, nil), new(atomic.Int64), new(atomic.Int64), new(atomic.Value)}
	monitor, err := operation.NewMonitor(polled, operation.Options{Log: hclog.NewNullLogger(), Metrics: metrics})
	if err != nil {
		return c, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go monitor.Run(ctx)
	if err := pause(ctx, time.Second); err != nil {
		return c, err
	}
	debug.FreeOSMemory() // of the start
	if c.RSSIdle, err = rss(); err != nil {
		return c, err
	}
	for n := range backups {
		monitor.Follow(&operation.Owner{
			Kind: operation.OfBackup, Namespace: "velero", Name: fmt.Sprint("nightly-", n),
			UID: types.UID(fmt.Sprint("uid-", n)), JSON: []byte(backup),
		}, operations(n), 24*time.Hour)
	}
	if err := pause(ctx, settle); err != nil {
		return c, err
	}
	cpu, polls, calls, began := cpuTime(), polled.polls.Load(), polled.calls.Load(), time.Now()
	if err := pause(ctx, span); err != nil {
		return c, err
	}
	minutes := time.Since(began).Minutes()
	c.CPU = (cpuTime() - cpu).Seconds() / minutes
	c.Polls = float64(polled.polls.Load()-polls) / minutes
	c.Calls = float64(polled.calls.Load()-calls) / minutes
	if failed := polled.failed.Load(); failed != nil {
		return c, fmt.Errorf("a poll failed: %v", failed)
	}
	c.RSS, err = rss()
	return c, err
}

// operations returns the operations of one backup, which are so old that they are polled at the slowest pace.
func operations(backup int) []operation.Operation {
	all := make([]operation.Operation, 0, perBackup)
	for i := range perBackup {
		namespace, name := fmt.Sprint("shop-", i%10), fmt.Sprintf("data-%d-%d", backup, i)
		all = append(all, operation.Operation{
			Action: "bench.cleat.dev/longwork", ID: fmt.Sprintf("uid-%d/PersistentVolumeClaim/%s/%s", backup, namespace, name),
			Item:    framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: namespace, Name: name},
			Created: time.Now().Add(-time.Hour), Status: operation.Status{Phase: operation.InProgress},
		})
	}
	return all
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cpuTime returns the CPU time of this process, without its plugins.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // only for invalid arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// rss returns the resident memory in KiB.
func rss() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		}
	}
	return 0, fmt.Errorf("the system does not report resident memory (VmRSS)")
}
