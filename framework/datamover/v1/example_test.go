package v1_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
)

// copier keeps each snapshot as a copy of the directory, in a location that is a directory too.
type copier struct{}

func (copier) folder(of dmv1.Repository, snapshot string) string {
	return filepath.Join(of.Config["path"], of.Config["bucket"], of.Config["prefix"], of.Path, snapshot)
}

func (c copier) Backup(_ context.Context, input *dmv1.BackupInput) (*dmv1.BackupOutput, error) {
	to := c.folder(input.Repository, input.Key)
	if _, err := os.Stat(to); err == nil {
		return &dmv1.BackupOutput{SnapshotID: input.Key}, nil
	}
	input.Report(dmv1.Progress{Activity: "copying"})
	if err := os.CopyFS(to+".part", os.DirFS(input.Volume.Path)); err != nil {
		return nil, err
	}
	return &dmv1.BackupOutput{SnapshotID: input.Key}, os.Rename(to+".part", to)
}

func (c copier) Restore(_ context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	from := c.folder(input.Repository, input.SnapshotID)
	if _, err := os.Stat(from); err != nil {
		return nil, framework.NotFound("no snapshot %s in %s", input.SnapshotID, input.Repository)
	}
	return &dmv1.RestoreOutput{}, os.CopyFS(input.Volume.Path, os.DirFS(from))
}

func (c copier) Forget(_ context.Context, input *dmv1.ForgetInput) (*dmv1.ForgetOutput, error) {
	for _, id := range input.SnapshotIDs {
		if err := os.RemoveAll(c.folder(input.Repository, id)); err != nil {
			return nil, err
		}
	}
	return &dmv1.ForgetOutput{}, nil
}

func (copier) Maintain(context.Context, *dmv1.MaintainInput) (*dmv1.MaintainOutput, error) {
	return &dmv1.MaintainOutput{}, nil // Forget has freed the space
}

func (c copier) Check(_ context.Context, input *dmv1.CheckInput) (*dmv1.CheckOutput, error) {
	folder := c.folder(input.Repository, "")
	_, err := os.Stat(folder)
	if err != nil && input.Create {
		return &dmv1.CheckOutput{Created: true}, os.MkdirAll(folder, 0o750)
	}
	if err != nil {
		return nil, framework.NotFound("no repository at %s", input.Repository)
	}
	return &dmv1.CheckOutput{}, nil
}

func newCopier(context.Context, *framework.Setup) (dmv1.DataMover, error) { return copier{}, nil }

func Example() {
	registration := dmv1.Register("example.io/copier", newCopier)
	fmt.Println(registration.Kind(), registration.Name())

	repository := dmv1.Repository{Provider: "cleat.dev/file", Config: map[string]string{"bucket": "backups"},
		Path: "plugins/shop", Password: []byte("secret")}
	fmt.Printf("%v %+v\n", repository, &repository)
	// Output:
	// DataMover example.io/copier
	// cleat.dev/file backups/plugins/shop cleat.dev/file backups/plugins/shop
}
