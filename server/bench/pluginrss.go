package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

// pluginRSSIdle reports the resident memory, in MB, of the process of a small plugin that has been started and has
// listed what it offers. Memory that it shares with other processes of the same file counts in full.
func pluginRSSIdle(ctx context.Context, _ string, report func(string, float64)) error {
	var megabytes []float64
	for range runs {
		resident, err := residentOfPlugin(ctx)
		if err != nil {
			return err
		}
		if resident == 0 {
			return errors.New("the system does not report the resident memory of a process")
		}
		megabytes = append(megabytes, float64(resident)/1e6)
	}
	say("MB of an idle plugin process: %.1f", megabytes)
	report("plugin_rss_idle", median(megabytes))
	return nil
}

// residentOfPlugin starts a plugin and returns its resident memory.
func residentOfPlugin(ctx context.Context) (int64, error) {
	dir, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := build(ctx, "labeller", filepath.Join(dir, "label")); err != nil {
		return 0, err
	}
	host, err := pluginhost.New(ctx, pluginhost.Config{Dir: dir, Log: hclog.NewNullLogger()})
	if err != nil {
		return 0, err
	}
	defer host.Close()
	if len(host.Entries()) != 3 || !host.Entries()[0].Used {
		return 0, fmt.Errorf("the plugin has not the three actions that it should have: %v", host.Entries())
	}
	return host.Entries()[0].Process.ResidentBytes, nil
}
