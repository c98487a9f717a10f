package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/control/verification"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
	"github.com/cleat-dev/cleat/server/internal/node/repository"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// moverRepositories works with repositories of volumes, by the data movers that the server has among its
// plugins.
type moverRepositories struct {
	opener repository.Opener
	movers movers
}

func newRepositories(
	cluster *run.Cluster, locations *location.Opener, host *pluginhost.Host, log hclog.Logger,
) *moverRepositories {
	opener := repository.Opener{Cluster: cluster, Locations: locations, Now: time.Now, Log: log}
	return &moverRepositories{opener, movers{host}}
}

// warnOfPassword logs that the repositories have the public password.
func warnOfPassword(ctx context.Context, live client.Reader, c Config) {
	public, err := repopassword.PublicIn(ctx, live, c.Namespace, "")
	switch {
	case err != nil:
		c.Log.Warn("could not find out whether the repositories of volumes have the public password", "error", err)
	case public:
		c.Log.Warn(repopassword.Warning)
	}
}

// Forget implements volumes.Repositories.
func (r *moverRepositories) Forget(
	ctx context.Context, moverName, locationName, namespace string, snapshots []string, tags map[string]string,
) (kept []string, err error) {
	mover, err := r.movers.Find(moverName)
	if err != nil {
		return nil, fmt.Errorf("%w, which it needs to remove what was backed up; add the plugin of %s to its plugin "+
			"directory, and delete the backup again: %w", volumes.ErrNoMover, moverName, err)
	}
	var forgotten datamover.Forgotten
	err = r.opener.Use(ctx, mover, locationName, namespace, func(of datamover.Repository) (err error) {
		forgotten, err = mover.Forget(ctx, datamover.Forget{Repository: of, SnapshotIDs: snapshots, Tags: tags}, nil)
		return err
	})
	if errors.Is(err, versioning.ErrNotFound) {
		r.opener.Log.Warn("there is no repository from which snapshots have to be removed", "namespace", namespace,
			"location", locationName, "reason", err)
		return nil, nil
	}
	return forgotten.Kept, err
}

// Check implements verification.Repositories.
func (r *moverRepositories) Check(
	ctx context.Context, moverName, locationName, namespace string, snapshots []string, data bool,
) (checked verification.Checked, err error) {
	mover, err := r.movers.Find(moverName)
	if err != nil {
		return checked, fmt.Errorf("%w %s: %w", volumes.ErrNoMover, moverName, err)
	}
	check := datamover.Check{Depth: datamover.Structure, SnapshotIDs: snapshots}
	if data {
		check.Depth = datamover.Data
	}
	var answer datamover.Checked
	err = r.opener.Use(ctx, mover, locationName, namespace, func(of datamover.Repository) (err error) {
		check.Repository = of
		check.Repository.ReadOnly = true
		answer, err = mover.Check(ctx, check, nil)
		return err
	})
	return verification.Checked{Warnings: answer.Warnings, Looked: answer.Looked, Missing: answer.Missing}, err
}
