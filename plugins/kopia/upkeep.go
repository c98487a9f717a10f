package kopia

import (
	"context"
	"errors"
	"time"

	"github.com/kopia/kopia/snapshot"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
)

// Forget implements dmv1.DataMover.
func (m *mover) Forget(ctx context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	s, err := m.open(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end(ctx)
	output := &dmv1.ForgetOutput{}
	var remove []*snapshot.Manifest
	for _, id := range input.SnapshotIDs {
		found, err := repository.Snapshot(ctx, s.Repository, id)
		switch {
		case errors.Is(err, snapshot.ErrSnapshotNotFound):
		case err != nil:
			return nil, s.explain(ctx, err)
		case hasTags(found, input.Tags):
			remove = append(remove, found)
		default:
			output.Kept = append(output.Kept, id)
		}
	}
	if len(remove) > 0 {
		if err := repository.Forget(ctx, s.Repository, remove); err != nil {
			return nil, s.explain(ctx, err)
		}
	}
	output.Warnings = s.Warned()
	return output, s.done(ctx, nil)
}

// hasTags reports whether a snapshot has all of some tags.
func hasTags(of *snapshot.Manifest, tags map[string]string) bool {
	for name, value := range tags {
		if found, ok := of.Tags[name]; !ok || found != value {
			return false
		}
	}
	return true
}

// Maintain implements dmv1.DataMover. It does what is due by the schedule in the repository.
func (m *mover) Maintain(ctx context.Context, input *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	s, err := m.start(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end(ctx)
	interval, err := s.ofRepository(input.Settings)
	if err != nil {
		return nil, err
	}
	lock := m.one(s.place.url)
	lock.Lock()
	defer lock.Unlock()
	st, state, err := s.look(ctx, false)
	if err == nil {
		err = s.existing(ctx, st, state)
	}
	var before int64
	if err == nil {
		before = s.counted.Freed()
		s.report("maintaining the repository")
		err = repository.Maintain(ctx, s.Repository, interval)
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &dmv1.MaintainOutput{FreedBytes: s.counted.Freed() - before, Warnings: s.Warned()}, s.done(ctx, nil)
}

// Check implements dmv1.DataMover.
func (m *mover) Check(ctx context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	s, err := m.start(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end(ctx)
	interval, err := s.ofRepository(input.Settings)
	if err != nil {
		return nil, err
	}
	output := &dmv1.CheckOutput{}
	if input.Create && !s.of.ReadOnly {
		output.Created, err = s.create(ctx, interval)
	} else {
		var st *storage.Counted
		var state repository.State
		if st, state, err = s.look(ctx, false); err == nil {
			err = s.existing(ctx, st, state)
		}
	}
	if err == nil && input.Depth > dmv1.Access && !output.Created {
		s.report("checking the repository")
		err = repository.Verify(ctx, s.Repository, input.Depth == dmv1.Data)
		if err != nil && !isAway(err) && !isOfSystem(err) && ctx.Err() == nil {
			err = &repository.DamagedError{Reason: err.Error()}
		}
	}
	for _, id := range input.SnapshotIDs {
		if err != nil {
			break
		}
		if _, err = repository.Snapshot(ctx, s.Repository, id); errors.Is(err, snapshot.ErrSnapshotNotFound) {
			output.Missing, err = append(output.Missing, id), nil
		}
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	output.Looked = true
	output.Warnings = s.Warned()
	return output, s.done(ctx, nil)
}

// create opens the repository, which it creates in an empty place, and completes one that was begun.
func (s *session) create(ctx context.Context, interval time.Duration) (created bool, err error) {
	lock := s.mover.one(s.place.url)
	lock.Lock()
	defer lock.Unlock()
	st, state, err := s.look(ctx, true)
	if err != nil {
		return false, err
	}
	if state == repository.Foreign || state == repository.Complete {
		return false, s.existing(ctx, st, state)
	}
	if state == repository.Nothing {
		s.report("creating the repository")
		if err := repository.Initialize(ctx, st, s.password()); err != nil {
			return false, errors.Join(err, st.Close(context.WithoutCancel(ctx)))
		}
		created = true
	}
	if err := s.use(ctx, st); err != nil {
		return false, err
	}
	if err := repository.Finish(ctx, s.Repository, s.counted, interval); err != nil {
		return false, framework.Errorf("complete the repository: %w", err)
	}
	return created, nil
}
