package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
)

// shelf keeps each snapshot as a copy of the directory.
type shelf struct{}

func place(r dmv1.Repository, snapshot string) string {
	return filepath.Join(r.Config["path"], r.Config["bucket"], r.Path, snapshot)
}

func (shelf) Backup(_ context.Context, input *dmv1.BackupInput) (*dmv1.BackupOutput, error) {
	id := "copy-" + input.Key
	input.Report(dmv1.Progress{Activity: "copying " + input.Volume.Path})
	return &dmv1.BackupOutput{SnapshotID: id, Warnings: []string{"parent " + input.Parent + ", tag " + input.Tags["ns"]}},
		os.CopyFS(place(input.Repository, id), os.DirFS(input.Volume.Path))
}

func (shelf) Restore(_ context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	from := place(input.Repository, input.SnapshotID)
	if _, err := os.Stat(from); err != nil {
		return nil, framework.NotFound("no snapshot %s in %s", input.SnapshotID, input.Repository)
	}
	return &dmv1.RestoreOutput{Bytes: 7}, os.CopyFS(input.Volume.Path, os.DirFS(from))
}

func (shelf) Forget(_ context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	for _, id := range input.SnapshotIDs {
		if err := os.RemoveAll(place(input.Repository, id)); err != nil {
			return nil, err
		}
	}
	return &dmv1.ForgetOutput{}, nil
}

func (shelf) Maintain(context.Context, *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	return &dmv1.MaintainOutput{FreedBytes: 3}, nil
}

func (shelf) Check(_ context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	return &dmv1.CheckOutput{Created: input.Create,
		Warnings: []string{[]string{"access", "structure", "data"}[input.Depth]}}, nil
}
