package backups

import (
	"context"
	"io"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

// description is what manifest writers write about one backup.
type description struct {
	*policy.Manifest
	files *shelf
}

// describe has the manifest writers describe a backup. The caller must call Finish or Abort, and close after that.
// Temporary files are in dir.
func describe(
	ctx context.Context, writers *policy.Manifests, session *pluginhost.Session, b *velerov1.Backup, dir string,
) (*description, error) {
	encoded, err := encodeBackup(b)
	if err != nil {
		return nil, err
	}
	files := newShelf(dir)
	return &description{writers.Begin(ctx, session, encoded, files.keep), files}, nil
}

// store stores the files of the writers that did well, those of one writer with each call of put. It returns the
// failures of the others, which are logged.
func (d *description) store(put func(files map[string]io.ReadSeeker) error, log hclog.Logger) (found results.Results) {
	warnings, errs := d.Store(func(artifacts []policy.Artifact) error {
		files := map[string]io.ReadSeeker{}
		for _, artifact := range artifacts {
			file, err := d.files.open(artifact)
			if err != nil {
				return err
			}
			files[artifact.Name] = file
		}
		return put(files)
	})
	const text = "the backup is not described by one of its manifest writers"
	for _, err := range warnings {
		found.Warnings.AddVelero(results.Message{Text: text, Err: err}.String())
		log.Warn(text, "error", err)
	}
	for _, err := range errs {
		found.Errors.AddVelero(results.Message{Text: text, Err: err}.String())
		log.Error(text, "error", err)
	}
	return found
}

// close removes the temporary files.
func (d *description) close() { d.files.close() }
