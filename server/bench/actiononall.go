package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// actionOnAllOverNone reports the time of a backup of about 6,900 objects with an action that labels each of them,
// divided by that of a server without plugins.
func actionOnAllOverNone(ctx context.Context, cleat string, report func(string, float64)) (err error) {
	s, err := newPopulatedSite(ctx, cleat)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	none, err := s.backups(ctx, "none")
	if err != nil {
		return err
	}
	if err := build(ctx, "labelall", filepath.Join(s.PluginDir, "labelall")); err != nil {
		return err
	}
	all, err := s.backups(ctx, "all")
	if err != nil {
		return err
	}
	say("without an action %.3fs, with one %.3fs", none, all)
	report("action_on_all_over_none", all/none)
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
