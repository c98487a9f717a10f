// Command bench measures cleat against baselines that it measures in the same run on the same machine. It prints every
// figure as a line "BENCH <name> <value>", the median of five runs unless the benchmark says otherwise; the
// measurements behind it go to stderr. After all benchmarks it exits with status 1 if a figure is above its limit. The
// command is below server because it measures parts of the server; it drives the real binary like a user, with the
// control plane and the worlds of server/test. Run it with "make bench".
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

// runs is the number of measurements of each figure.
const runs = 5

// bench is one benchmark; it reports one or more figures.
type bench struct {
	name  string
	about string // describes the figure of that name
	run   func(ctx context.Context, cleat string, report func(name string, value float64)) error
}

// benches lists the benchmarks in the order in which they run.
var benches = []bench{
	{"archive_size", "size of an archive of 100 MB of items / size of a plain tar.gz of the same entries", archiveSize},
	{"backup_over_limit", "time of a backup of 6,900 objects / time to page and gzip the same lists",
		onPopulatedSite(backupOverLimit)},
	{"restore_over_limit", "time of a restore of 6,000 objects / time to create them with the best number of workers",
		onSite(restoreOverLimit)},
	{"backup_rss_growth", "peak memory of a server that backs up 60,000 objects / that of one that backs up 6,000",
		onSite(backupRSSGrowth)},
	{"rpc_over_bare", "time of an action that labels items as JSON / time of a bare gRPC echo of the items", rpcOverBare},
	{"lift_over_direct", "time of a plugin of version 1 / time of the same plugin at the hub's version", liftOverDirect},
	{"plugin_rss_idle", "resident memory of an idle plugin in MB", pluginRSSIdle},
	{"queue_decide_growth", "time of a decision with 4,000 queued backups / with 1,000", queueDecideGrowth},
	{"queue_wake_over_bare", "time from the end of a backup to the next / time of a bare program that watches and writes",
		onSite(queueWakeOverBare)},
	{"async_start_over_bare", "time of a backup whose action starts 1,000 operations / time of the bare calls",
		onSite(asyncStartOverBare)},
	{"operations_over_work", "time from the first start of 200 operations to Completed / time of their work alone",
		onSite(operationsOverWork)},
	{"manifest_cost", "time of a backup of 6,900 objects with the manifest / without it", onPopulatedSite(manifestCost)},
	{"sealed_over_plain", "time of a backup of 6,900 objects to a sealed location / to the store behind it",
		onPopulatedSite(sealedOverPlain)},
	{"signing_cost", "time of a backup of 6,900 objects that is signed / that is not", onPopulatedSite(signingCost)},
	{"verify_over_read", "time to verify a backup of 512 MiB / to read and hash the same files", verifyOverRead},
	{"manifest_million_rss", "peak memory in MB of writing and of reading a manifest of a million items", manifestMillion},
	{"manifest_get_over_range", "time to find one of a million items in S3 / time of a ranged read of as many bytes",
		manifestGetOverRange},
	{"hooks_over_exec", "time of a backup of 200 pods with hooks that do nothing / time of the bare exec calls",
		onSite(hooksOverExec)},
	{"sync_10k_backups", "time to bring 10,000 backups into an empty cluster / time of a bare listing and as many creates",
		sync10k},
	{"gc_10k", "requests to the API server for each of 10,000 expired backups that are deleted", gc10k},
	{"calls_per_restored_item", "requests to the API server for each object of a restore", callsPerRestoredItem},
	{"restore_rss_growth", "peak memory of a server that restores 60,000 objects / of one that restores 6,000",
		onSite(restoreRSSGrowth)},
	{"restore_graph_over_flat", "time of a restore of 2,000 objects in chains of ten / of as many without needs",
		onSite(restoreGraphOverFlat)},
	{"plan_million", "seconds, MB and growth of the order of a restore of a million items", planMillion},
	{"upload_over_restic", "time of backups of 2 GB in 50,000 files by the data mover cleat.dev/restic / by the bare " +
		"restic", moverOverBare(findRestic)},
	{"upload_over_kopia", "time of backups of 2 GB in 50,000 files by the data mover cleat.dev/kopia / by a program " +
		"that does nothing but call kopia's packages", moverOverBare(findKopia)},
	{"mover_rss", "peak memory in MB of the data mover cleat.dev/kopia that moves this volume with a limit of 128 MiB",
		moverRSS},
	{"soothing_calls_per_load", "requests of a node agent to the API server for each load that the policy admits, with " +
		"500 queued", onSite(soothing)},
	{"console_page_over_calls", "time of the first page of a viewer with 10,500 backups / time of the requests that it " +
		"needs; what 100 viewers cost", onSite(consolePages)},
	{"poll_cost_10k", "CPU seconds a minute of following 10,000 operations of 20 backups", pollCost10k},
}

// limits returns the maximum of each figure; a figure above it fails the run. Figures without a limit are informative.
func limits() map[string]float64 {
	return map[string]float64{
		"upload_over_restic":       1.1,
		"upload_again_over_restic": 1.2, // of 2.4 s in memory, the constant cost of a load is a tenth
		"download_over_restic":     1.1,
		"upload_over_kopia":        1.1,
		"upload_again_over_kopia":  1.1,
		"download_over_kopia":      1.1,
		"mover_rss":                150,
		"dryrun_over_backup":       1.0,
		"archive_size":             1.02,
		"backup_over_limit":        1,
		"restore_over_limit":       1.15,
		"restore_over_limit_30k":   1.15,
		"calls_per_restored_item":  1.01,
		"restore_rss_growth":       1.2,
		"restore_graph_over_flat":  1.1,
		"plan_million_growth":      1.3,
		"backup_rss_growth":        1.3,
		"rpc_over_bare":            1.15,
		"lift_over_direct":         1.02,
		"queue_decide_growth":      5,
		"queue_wake_over_bare":     3,
		"async_start_over_bare":    1.3,
		"operations_over_work":     1.1,
		"poll_cost_10k":            3,
		"soothing_calls_per_load":  3,
		"soothing_reads":           0,
		"admit_over_watch":         3,
		"agent_rss_growth":         1.3,
		"manifest_cost":            1.05,
		"manifest_million_rss":     200,
		"signing_cost":             1.02,
		"verify_over_read":         1.2,
		"manifest_bytes_over_gzip": 2,
		"manifest_get_over_range":  3,
		"poll_cost_10k_rss":        30,
		"hooks_over_exec":          1.3,
		"sync_10k_backups":         1.5,
		"sync_10k_calls":           1.5,
		"sync_10k_again":           1.1,
		"sync_10k_rss":             1.3,
		"gc_10k":                   6,
		"console_page_over_calls":  1.5,
		"console_rss":              60,
		"console_idle_cpu":         5,
	}
}

func main() {
	cleat := flag.String("cleat", "bin/cleat", "path of the cleat binary")
	only := flag.String("only", "", "measure this alone")
	scaled := flag.Int("scale", 0, "back up and restore so many objects instead, and print a table")
	compared := flag.Bool("compare", false, "compare cleat with the real Velero instead, and print a table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	work := func() error { return measure(ctx, *cleat, *only) }
	if *compared {
		work = func() error { return compare(ctx, *cleat, *only) }
	}
	if *scaled > 0 {
		work = func() error { return scale(ctx, *cleat, *scaled) }
	}
	err := work()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, cleat, only string) error {
	fmt.Printf("machine: %s, %d cores, %s, %s/%s\n", cpu(), runtime.NumCPU(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
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
		say("%s: %s", b.name, b.about)
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

// median returns the median of some values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// say prints a line that explains a figure.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) }

// cpu returns the name of the processor as Linux reports it.
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
