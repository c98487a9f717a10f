package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

// start100Plugins reports the time in seconds that a host needs to start 100 plugin binaries and to list their
// actions. The binaries are one file under 100 names, so that the benchmark measures processes and not the disk.
func start100Plugins(ctx context.Context, _ string, report func(string, float64)) error {
	var seconds []float64
	for range runs {
		took, _, err := startPlugins(ctx, 100)
		if err != nil {
			return err
		}
		seconds = append(seconds, took.Seconds())
	}
	say("seconds to start 100 plugins: %.2f", seconds)
	report("start_100_plugins", median(seconds))
	return nil
}

// pluginRSSIdle reports the resident memory, in MB, of the process of a small plugin that has been started and has
// listed its actions. Memory that it shares with other processes of the same file counts in full.
func pluginRSSIdle(ctx context.Context, _ string, report func(string, float64)) error {
	var megabytes []float64
	for range runs {
		_, resident, err := startPlugins(ctx, 1)
		if err != nil {
			return err
		}
		if resident == 0 {
			return errors.New("the system does not tell the resident memory of a process")
		}
		megabytes = append(megabytes, float64(resident)/1e6)
	}
	say("MB of an idle plugin process: %.1f", megabytes)
	report("plugin_rss_idle", median(megabytes))
	return nil
}

// startPlugins returns the time that a host needs to start n plugins, and the resident memory of the first.
func startPlugins(ctx context.Context, n int) (took time.Duration, resident int64, err error) {
	dir, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	first := filepath.Join(dir, "label-000")
	if err := build(ctx, "labeller", first); err != nil {
		return 0, 0, err
	}
	for i := range n - 1 {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("label-%03d", i+1))); err != nil {
			return 0, 0, err
		}
	}
	began := time.Now()
	host, err := pluginhost.New(ctx, pluginhost.Config{Dir: dir, Log: hclog.NewNullLogger()})
	took = time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	defer host.Close()
	used := 0
	for _, entry := range host.Entries() {
		if entry.Used {
			used++
		}
	}
	if used != 3*n {
		return 0, 0, fmt.Errorf("%d of %d actions can be used: %v", used, 3*n, host.Entries())
	}
	return took, host.Entries()[0].Process.ResidentBytes, nil
}
