package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/server/test/world"
)

// backupRSSGrowth reports the peak memory of a server that backs up 60,000 objects, divided by the peak memory of one
// that backs up 6,000. Each server is a new process.
func backupRSSGrowth(ctx context.Context, s *site, report func(string, float64)) error {

	peak := func(name string) (float64, error) {
		var peaks []float64
		for run := range runs {
			peak, err := s.peakRSS(ctx, fmt.Sprintf("%s-%d", name, run))
			if err != nil {
				return 0, err
			}
			peaks = append(peaks, peak)
		}
		say("%s: peak %.0f MB (of %.0f)", name, median(peaks), peaks)
		return median(peaks), nil
	}
	create := func(prefix string, perNamespace int) error {
		objects := plain(prefix, perNamespace)
		say("creating %d objects", len(objects))
		return s.client.CreateBare(ctx, objects, world.Workers)
	}
	if err := create("few", 600); err != nil {
		return err
	}
	few, err := peak("6000")
	if err != nil {
		return err
	}
	if err := create("many", 5400); err != nil {
		return err
	}
	many, err := peak("60000")
	if err != nil {
		return err
	}
	report("backup_rss_growth", many/few)
	return nil
}

// peakRSS starts a server, backs up the whole cluster, and returns the server's highest resident set in MB.
func (s *site) peakRSS(ctx context.Context, name string) (float64, error) {
	_, peak, err := s.alone(ctx, func() (time.Duration, error) {
		took, _, err := s.backup(ctx, name, nil)
		return took, err
	})
	return peak, err
}

// peakOf returns the highest resident set of a process in KiB.
func peakOf(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		}
	}
	return 0, errors.New("the system does not report the peak of resident memory (VmHWM)")
}
