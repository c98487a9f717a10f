package restic

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

// Forget implements dmv1.DataMover.
func (m *mover) Forget(ctx context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	s, err := m.open(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end()
	args := []string{"forget"}
	output := &dmv1.ForgetOutput{}
	for _, id := range input.SnapshotIDs {
		found, err := s.snapshot(ctx, id)
		if errors.Is(err, framework.ErrNotFound) {
			continue
		}
		has := len(input.Tags) == 0
		if err == nil && !has {
			has, err = s.hasTags(ctx, found, input.Tags)
		}
		if err != nil {
			return nil, err
		}
		if !has {
			output.Kept = append(output.Kept, id)
			continue
		}
		args = append(args, found)
	}
	if len(args) == 1 {
		return output, nil
	}
	if err := s.run(ctx, program.Command{Args: args}); err != nil {
		return nil, err
	}
	for _, id := range args[1:] { // restic ignores an id that it does not find
		if _, err := s.snapshot(ctx, id); !errors.Is(err, framework.ErrNotFound) {
			return nil, errors.Join(framework.Errorf("restic has not removed snapshot %s from repository %s", id, s.repository),
				err)
		}
	}
	output.Warnings = s.Warned()
	return output, nil
}

// hasTags reports whether a snapshot has all of some tags.
func (s *session) hasTags(ctx context.Context, id string, tags map[string]string) (bool, error) {
	text, err := s.capture(ctx, "cat", "snapshot", id)
	if err != nil {
		return false, err
	}
	var snapshot struct {
		Tags []string `json:"tags"`
	}
	if err := json.Unmarshal(text, &snapshot); err != nil {
		return false, framework.Errorf("read the tags of snapshot %s: %w", id, err)
	}
	for name, value := range tags {
		if !slices.Contains(snapshot.Tags, name+"="+value) {
			return false, nil
		}
	}
	return true, nil
}

// freed is what prune says that it deletes.
var freed = regexp.MustCompile(`^total prune: +\d+ blobs / (\d+(?:\.\d+)?) (B|KiB|MiB|GiB|TiB)$`)

// Maintain implements dmv1.DataMover.
func (m *mover) Maintain(ctx context.Context, input *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	s, err := m.open(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end()
	s.noSettings(input.Settings)
	if err := s.unlock(ctx); err != nil { // of loads that were killed, before they are waited for
		return nil, err
	}
	output := &dmv1.MaintainOutput{}
	args := []string{"prune", "--cleanup-cache"}
	if m.config.MaxUnused != "" {
		args = append(args, "--max-unused="+m.config.MaxUnused)
	}
	if err := s.run(ctx, program.Command{Args: args, Line: func(line []byte) {
		if found := freed.FindSubmatch(line); found != nil {
			output.FreedBytes = size(string(found[1]), string(found[2]))
		}
	}}); err != nil {
		return nil, err
	}
	output.Warnings = s.Warned()
	return output, nil
}

// noSettings warns of settings of a repository, of which restic has none.
func (s *session) noSettings(settings map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		s.Warn("the setting %q is not one of %s and has no effect", name, Name)
	}
}

// size returns the number of bytes of what restic prints: "11.748", "MiB".
func size(number, unit string) int64 {
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	shift := map[string]int{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[unit]
	return int64(value * float64(int64(1)<<shift))
}

// Check implements dmv1.DataMover.
func (m *mover) Check(ctx context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	s, err := m.start(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end()
	s.noSettings(input.Settings)
	if input.Create {
		lock := m.creating(s.place.url)
		lock.Lock()
		defer lock.Unlock()
	}
	output := &dmv1.CheckOutput{}
	err = s.look(ctx)
	if input.Create && errors.Is(err, framework.ErrNotFound) {
		if s.repository.ReadOnly {
			return nil, err
		}
		err = s.run(ctx, program.Command{Args: []string{"init"}})
		output.Created = err == nil
	} else if err == nil && input.Depth == dmv1.Access {
		_, err = s.capture(ctx, "cat", "config", "--no-lock")
	}
	if err != nil {
		return nil, err
	}
	if input.Depth > dmv1.Access && !output.Created {
		args := []string{"check"}
		if input.Depth == dmv1.Data {
			args = append(args, "--read-data")
		}
		if err := s.run(ctx, program.Command{Args: args}); err != nil {
			return nil, err
		}
	}
	for _, id := range input.SnapshotIDs {
		switch _, err := s.snapshot(ctx, id); {
		case errors.Is(err, framework.ErrNotFound):
			output.Missing = append(output.Missing, id)
		case err != nil:
			return nil, err
		}
	}
	output.Looked = true
	output.Warnings = s.Warned()
	return output, nil
}
