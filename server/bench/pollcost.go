package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// pollCost10k reports the CPU seconds per minute of a process that only follows 10,000 operations of 20 backups at the
// default frequency, with the plugin in a process of its own. More figures are its polls and its calls per minute, and
// the additional resident memory in MB compared with the same process without operations.
func pollCost10k(ctx context.Context, _ string, report func(string, float64)) error {
	dir, err := os.MkdirTemp("", "cleat-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	plugins, follower := filepath.Join(dir, "plugins"), filepath.Join(dir, "follower")
	if err := build(ctx, "longwork", filepath.Join(plugins, "longwork")); err != nil {
		return err
	}
	if err := build(ctx, "follower", follower); err != nil {
		return err
	}
	var cpu, polls, calls, memory []float64
	for range runs {
		command := exec.CommandContext(ctx, follower, "-plugins", plugins, "-backup", benchBackup)
		command.Stderr = os.Stderr
		out, err := command.Output()
		if err != nil {
			return fmt.Errorf("follow operations: %w", err)
		}
		var cost struct {
			CPU, Polls, Calls float64
			RSSIdle, RSS      int
		}
		if err := json.Unmarshal(out, &cost); err != nil {
			return fmt.Errorf("the follower printed %q: %w", out, err)
		}
		cpu, polls, calls = append(cpu, cost.CPU), append(polls, cost.Polls), append(calls, cost.Calls)
		memory = append(memory, float64(cost.RSS-cost.RSSIdle)/1000)
		say("%.2f s of CPU, %.0f polls and %.0f calls a minute, %.1f µs each poll; memory %d KiB, without operations %d KiB",
			cost.CPU, cost.Polls, cost.Calls, cost.CPU/cost.Polls*1e6, cost.RSS, cost.RSSIdle)
	}
	report("poll_cost_10k", median(cpu))
	report("poll_cost_10k_polls", median(polls))
	report("poll_cost_10k_rpcs", median(calls))
	report("poll_cost_10k_rss", median(memory))
	return nil
}
