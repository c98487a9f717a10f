// Command bench measures cleat against limits that it measures itself, in the same run on the same control
// plane. Every figure is the median of five runs and is printed as a line "BENCH <name> <value>"; what it
// is made of goes to stderr. A figure beyond its limit makes the exit status 1, when all have been measured. It stands
// in server because it measures the server's parts, and drives the real binary like a user, with the control plane and
// the worlds of examples. Run it with "make bench".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// runs is how often a figure is measured.
const runs = 5

// bench measures one thing and reports its figures.
type bench struct {
	name string
	run  func(ctx context.Context, cleat string, report func(name string, value float64)) error
}

// benches in the order in which they run; calls_per_restored_item comes with restore_over_limit when that is
// not asked for alone.
var benches = []bench{
	{"archive_over_gzip", archiveOverGzip},
	{"archive_size", archiveSize},
	{"backup_over_limit", backupOverLimit},
	{"restore_over_limit", restoreOverLimit},
	{"calls_per_restored_item", callsPerRestoredItem},
	{"backup_rss_growth", backupRSSGrowth},
	{"rpc_over_bare", rpcOverBare(1)},
	{"rpc_over_bare_8", rpcOverBare(8)},
	{"lift_over_direct", liftOverDirect},
	{"start_100_plugins", start100Plugins},
	{"plugin_rss_idle", pluginRSSIdle},
	{"queue_over_work", queueOverWork},
	{"queue_decide_growth", queueDecideGrowth},
	{"queue_wake_over_bare", queueWakeOverBare},
}

// limits are what figures may be at most; one that is more fails the run. Figures without a limit are for information.
func limits() map[string]float64 {
	return map[string]float64{
		"archive_over_gzip":       1.2,
		"archive_size":            1.02,
		"backup_over_limit":       1,
		"restore_over_limit":      2.5,
		"calls_per_restored_item": 1.2,
		"backup_rss_growth":       1.3,
		"rpc_over_bare":           1.15,
		"rpc_over_bare_8":         1.15,
		"lift_over_direct":        1.02,
		"queue_over_work":         1.3,
		"queue_over_work_invalid": 1.3,
		"queue_decide_growth":     5,
		"queue_wake_over_bare":    3,
		"queue_calls_per_backup":  3,
	}
}

func main() {
	cleat := flag.String("cleat", "bin/cleat", "path of the cleat binary")
	only := flag.String("only", "", "measure this alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, *cleat, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, cleat, only string) error {
	fmt.Printf("machine: %s, %d cores, %s, %s/%s\n", cpu(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	found, beyond := false, []string(nil)
	report := func(name string, value float64) {
		fmt.Printf("BENCH %s %.2f\n", name, value)
		if limit, ok := limits()[name]; ok && value > limit {
			beyond = append(beyond, fmt.Sprintf("%s is %.3f, want at most %.2f", name, value, limit))
		}
	}
	for _, b := range benches {
		if only != "" && only != b.name {
			continue
		}
		found = true
		if err := b.run(ctx, cleat, report); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if !found {
		var names []string
		for _, b := range benches {
			names = append(names, b.name)
		}
		return fmt.Errorf("no benchmark %q: want one of %s", only, strings.Join(names, ", "))
	}
	if len(beyond) > 0 {
		return errors.New(strings.Join(beyond, "; "))
	}
	return nil
}

// median of an odd number of values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// say explains a figure to whoever looks at the run.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) }

// cpu names the processor as Linux does.
func cpu() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, "\t :\n")
		}
	}
	return "unknown processor"
}
