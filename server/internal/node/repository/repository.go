// Package repository opens the repositories in which the data of volumes is stored. There is one for each namespace and
// location. Its path, password and BackupRepository are those of Velero's repository of the same engine, so that cleat
// and Velero can restore each other's data.
//
// A repository is created by one agent: the one that creates its BackupRepository, or takes it over from an agent that
// has not finished. Other agents wait for its phase Ready.
//
// The package imports the API types, run, location and the hubs of versioning. Start reading at Opener.Create.
package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

const (
	// creatorAnnotation of a New BackupRepository says which process creates the repository, and since when.
	creatorAnnotation = "cleat.dev/creator"
	// creationLimit is how long other processes wait for the creation.
	creationLimit = 2 * time.Minute
	poll          = 500 * time.Millisecond
)

// Opener opens repositories. It is safe for concurrent use.
type Opener struct {
	Cluster   *run.Cluster
	Locations *location.Opener
	Identity  string // of this process
	Now       func() time.Time
	Log       hclog.Logger // nil for none
}

// engineOf returns the engine of the repositories of a data mover. Those of a vendor's data mover have the place of
// restic's.
func engineOf(mover datamover.Mover) velerov1.RepositoryType {
	return cmp.Or(velerov1.EngineOf(mover.Name()), velerov1.RepositoryTypeRestic)
}

// Create implements node.Repositories.
func (o *Opener) Create(
	ctx context.Context, mover datamover.Mover, locationName, namespace string, gone bool,
) (r datamover.Repository, warning string, err error) {
	r, err = o.describe(ctx, mover, locationName, namespace, true)
	if err != nil {
		return r, "", err
	}
	if r.ReadOnly {
		return r, "", fmt.Errorf("backup storage location %s is read-only, so nothing can be stored in it", locationName)
	}
	if warning, err = o.ensure(ctx, mover, r, locationName, namespace, gone); err != nil {
		return r, "", fmt.Errorf("create the repository of namespace %s in location %s: %w", namespace, locationName, err)
	}
	return r, warning, nil
}

// Use implements node.Repositories. If the installation has a password of its own, nothing is stored in a repository
// with the public one: every client with write access to the bucket could have made it.
func (o *Opener) Use(
	ctx context.Context, mover datamover.Mover, locationName, namespace string, use func(datamover.Repository) error,
) error {
	r, err := o.describe(ctx, mover, locationName, namespace, false)
	if err != nil {
		return err
	}
	err = use(r)
	if !errors.Is(err, versioning.ErrInvalid) || repopassword.IsPublic(r.Password) {
		return err
	}
	public := r
	public.Password = []byte(repopassword.Public)
	if look := check(ctx, mover, r); !errors.Is(look, versioning.ErrInvalid) || check(ctx, mover, public) != nil {
		return err
	}
	if o.Log != nil {
		o.Log.Warn("a repository opens with the public password only, not with that of the Secret", "path", r.Path)
	}
	return use(public)
}

// check returns an error unless a repository can be read.
func check(ctx context.Context, mover datamover.Mover, r datamover.Repository) error {
	r.ReadOnly = true
	_, err := mover.Check(ctx, datamover.Check{Repository: r}, nil)
	return err
}

// describe returns the address of a repository and its credentials.
func (o *Opener) describe(
	ctx context.Context, mover datamover.Mover, locationName, namespace string, create bool,
) (r datamover.Repository, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the repository of namespace %s in location %s: %w", namespace, locationName, err)
		}
	}()
	for field, name := range map[string]string{"backup storage location": locationName, "namespace": namespace} {
		if err := kubeapi.CheckName(field, name); err != nil {
			return datamover.Repository{}, err // the path of the repository would be different
		}
	}
	var of velerov1.BackupStorageLocation
	if err := o.Cluster.Live.Get(ctx, client.ObjectKey{Namespace: o.Cluster.Namespace, Name: locationName},
		&of); err != nil {
		return datamover.Repository{}, err
	}
	provider, config, err := o.Locations.Config(ctx, &of)
	if err != nil {
		return datamover.Repository{}, err
	}
	password, err := o.password(ctx, create)
	return datamover.Repository{
		Provider: provider, Config: config, Path: string(engineOf(mover)) + "/" + namespace, Password: password,
		ReadOnly: run.ReadOnly(&of),
	}, err
}

// password returns the password of all repositories. If there is no Secret and create is set, it creates one. A
// repository that is only read may have the public password, from a time before this installation had its own.
func (o *Opener) password(ctx context.Context, create bool) ([]byte, error) {
	if create {
		password, created, err := repopassword.Ensure(ctx, o.Cluster.Client, o.Cluster.Live, o.Cluster.Namespace)
		if created && o.Log != nil {
			o.Log.Warn("created the password of repositories; keep a copy of the Secret outside of the cluster, which is "+
				"needed to restore volumes elsewhere",
				"secret", repopassword.SecretName)
		}
		return password, err
	}
	password, err := repopassword.Read(ctx, o.Cluster.Live, o.Cluster.Namespace)
	if password == nil && err == nil {
		password = []byte(repopassword.Public)
	}
	return password, err
}

// ensure makes sure that the repository exists. If a mover has not found one that is Ready, gone is set. The warning is
// set if the repository was created again.
func (o *Opener) ensure(
	ctx context.Context, mover datamover.Mover, r datamover.Repository, locationName, namespace string, gone bool,
) (warning string, err error) {
	engine := engineOf(mover)
	key := client.ObjectKey{Namespace: o.Cluster.Namespace, Name: usualName(namespace, locationName, engine)}
	distinct := distinctName(key.Name, namespace, locationName)
	for {
		var known velerov1.BackupRepository
		err := o.Cluster.Live.Get(ctx, key, &known)
		switch {
		case apierrors.IsNotFound(err):
			known = velerov1.BackupRepository{
				ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{
					velerov1.VolumeNamespaceLabel: velerov1.ValidLabelValue(namespace),
					velerov1.StorageLocationLabel: velerov1.ValidLabelValue(locationName),
					velerov1.RepositoryTypeLabel:  string(engine),
				}, Annotations: map[string]string{creatorAnnotation: o.claim()}},
				Spec: velerov1.BackupRepositorySpec{ // the server sets the rest
					VolumeNamespace: namespace, BackupStorageLocation: locationName, RepositoryType: engine,
				},
				Status: velerov1.BackupRepositoryStatus{Phase: velerov1.BackupRepositoryPhaseNew},
			}
			if !velerov1.IsBuiltInMover(mover.Name()) {
				known.Annotations[velerov1.DataMoverAnnotation] = mover.Name()
			}
			if err = o.Cluster.Create(ctx, &known); err == nil {
				return o.create(ctx, mover, r, &known)
			}
			if !apierrors.IsAlreadyExists(err) {
				return "", err
			}
		case err != nil:
			return "", err
		case known.Spec.VolumeNamespace != namespace || known.Spec.BackupStorageLocation != locationName:
			if key.Name == distinct {
				return "", fmt.Errorf("the BackupRepository %s is of namespace %q in location %q, delete it", key.Name,
					known.Spec.VolumeNamespace, known.Spec.BackupStorageLocation)
			}
			key.Name = distinct
			continue
		case known.Status.Phase == velerov1.BackupRepositoryPhaseReady && !isClaimedReady(&known):
			if !gone {
				return "", nil
			}
			look := check(ctx, mover, r) // another agent may have created it since
			if !errors.Is(look, versioning.ErrNotFound) {
				return "", look
			}
			fallthrough
		case o.overdue(&known):
			before := known.DeepCopy()
			metav1.SetMetaDataAnnotation(&known.ObjectMeta, creatorAnnotation, o.claim())
			known.Status.Phase = velerov1.BackupRepositoryPhaseNew // so that others wait
			err := o.Cluster.Patch(ctx, &known, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
			if err == nil {
				return o.create(ctx, mover, r, &known)
			}
			if !apierrors.IsConflict(err) {
				return "", err
			}
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// usualName returns the name of the BackupRepository of a namespace in a location, as Velero makes it.
func usualName(namespace, locationName string, engine velerov1.RepositoryType) string {
	return fmt.Sprintf("%s-%s-%s", namespace, locationName, engine)
}

// distinctName returns the name of a BackupRepository whose usual name is taken: both parts of it may have hyphens.
func distinctName(usual, namespace, locationName string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + locationName))
	return usual + "-" + hex.EncodeToString(sum[:4])
}

// claim returns a value of creatorAnnotation: this process creates the repository from now on.
func (o *Opener) claim() string { return o.Now().UTC().Format(time.RFC3339) + " " + o.Identity }

// overdue reports whether the creation of a repository has failed, or takes longer than creationLimit.
func (o *Opener) overdue(known *velerov1.BackupRepository) bool {
	if known.Status.Phase == velerov1.BackupRepositoryPhaseNotReady || isClaimedReady(known) {
		return true
	}
	var at, by string
	_, _ = fmt.Sscan(known.Annotations[creatorAnnotation], &at, &by)
	since, err := time.Parse(time.RFC3339, at)
	age := o.Now().Sub(since)
	return err != nil || age > creationLimit || age < -creationLimit // no clock is wrong by that much
}

// isClaimedReady reports whether a repository is Ready according to the creator of the BackupRepository.
func isClaimedReady(known *velerov1.BackupRepository) bool {
	return known.Status.Phase == velerov1.BackupRepositoryPhaseReady && velerov1.IsAsCreated(known)
}

// create creates a repository that does not exist, and records the result. The warning is set if it did exist before.
func (o *Opener) create(
	ctx context.Context, mover datamover.Mover, r datamover.Repository, known *velerov1.BackupRepository,
) (warning string, err error) {
	checked, failed := mover.Check(ctx, datamover.Check{Repository: r, Create: true,
		Settings: known.Spec.RepositoryConfig}, nil)
	before := known.DeepCopy()
	known.Status.Phase, known.Status.Message = velerov1.BackupRepositoryPhaseReady, ""
	switch {
	case failed != nil:
		known.Status.Phase, known.Status.Message = velerov1.BackupRepositoryPhaseNotReady, failed.Error()
	case known.Status.LastMaintenanceTime == nil:
		known.Status.LastMaintenanceTime = run.Timestamp(o.Now())
	case checked.Created:
		warning = fmt.Sprintf("the repository of namespace %s in location %s did not exist any more and was created again "+
			"at %s: earlier backups have lost the data of its volumes", known.Spec.VolumeNamespace,
			known.Spec.BackupStorageLocation, o.Now().UTC().Format(time.RFC3339))
		known.Status.Message = warning
		if o.Log != nil {
			o.Log.Warn(warning, "path", r.Path)
		}
	}
	delete(known.Annotations, creatorAnnotation)
	return warning, errors.Join(failed, o.Cluster.Patch(context.WithoutCancel(ctx), known, client.MergeFrom(before)))
}
