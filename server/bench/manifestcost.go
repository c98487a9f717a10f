package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// manifestTurns is the number of pairs of backups that are compared. Each takes half a second, so other load on the
// machine affects single ones.
const manifestTurns = 15

// manifestCost reports the time of a backup of about 6,900 objects with the manifest, divided by the time without.
// Servers with and without it take turns. The figure is the median of 15 turns.
func manifestCost(ctx context.Context, s *site, report func(string, float64)) error {
	config := filepath.Join(s.WorkDir, "cleat.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: cleat.dev/v1\nbackups: {manifestWriters: []}\n"),
		0o600); err != nil {
		return err
	}
	var ratios []float64
	for turn := range manifestTurns {
		without, err := s.backups(ctx, fmt.Sprintf("without-%d", turn), "--config", config)
		if err != nil {
			return err
		}
		with, err := s.backups(ctx, fmt.Sprintf("with-%d", turn))
		if err != nil {
			return err
		}
		ratios = append(ratios, with/without)
		say("without the manifest %.3fs, with it %.3fs", without, with)
	}
	report("manifest_cost", median(ratios))
	return nil
}

// backups returns the median of the seconds that a server needs for a backup of everything.
func (s *site) backups(ctx context.Context, name string, flags ...string) (seconds float64, err error) {
	server, err := s.Serve(ctx, s.client, flags...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	var times []float64
	for run := range runs + 1 {
		took, _, err := s.backup(ctx, fmt.Sprintf("%s-%d", name, run), nil)
		if err != nil {
			return 0, err
		}
		if run > 0 { // the first warms up
			times = append(times, took.Seconds())
		}
	}
	return median(times), nil
}
