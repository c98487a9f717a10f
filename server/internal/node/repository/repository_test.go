package repository

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// creator is a mover that records the repositories that it is called to create.
type creator struct {
	datamover.Mover
	name    string
	created []string
	exist   map[string]bool // by their paths; nil for none
}

func (c *creator) Name() string { return c.name }

func (c *creator) Check(
	_ context.Context, check datamover.Check, _ func(datamover.Progress),
) (datamover.Checked, error) {
	if !check.Create {
		if !c.exist[check.Repository.Path] {
			return datamover.Checked{}, versioning.ErrNotFound
		}
		return datamover.Checked{}, nil
	}
	c.created = append(c.created, check.Repository.Path)
	made := c.exist != nil && !c.exist[check.Repository.Path]
	if made {
		c.exist[check.Repository.Path] = true
	}
	return datamover.Checked{Created: made}, nil
}

func TestRepositoriesWhoseNamesAreAlikeAreAllCreated(t *testing.T) {
	t.Parallel()
	cluster := controllertest.NewCluster(t, nil)
	opener := &Opener{Cluster: cluster.Cluster, Identity: "agent", Now: time.Now}
	mover := &creator{name: velerov1.ResticDataMover}
	ensure := func(namespace, location string) error {
		_, err := opener.ensure(t.Context(), mover, datamover.Repository{Path: namespace + " in " + location}, location,
			namespace, false)
		return err
	}
	for range 2 { // existing repositories are not created again
		require.NoError(t, ensure("a-b", "c"))
		require.NoError(t, ensure("a", "b-c"))
	}
	require.Equal(t, []string{"a-b in c", "a in b-c"}, mover.created)

	var all velerov1.BackupRepositoryList
	require.NoError(t, cluster.List(t.Context(), &all, client.InNamespace(cluster.Namespace)))
	of := map[string]string{}
	for _, one := range all.Items {
		require.Equal(t, velerov1.BackupRepositoryPhaseReady, one.Status.Phase)
		of[one.Name] = one.Spec.VolumeNamespace + " in " + one.Spec.BackupStorageLocation
	}
	second := distinctName("a-b-c-restic", "a", "b-c")
	require.Equal(t, map[string]string{"a-b-c-restic": "a-b in c", second: "a in b-c"}, of)

	kopia := &creator{name: velerov1.KopiaDataMover}
	_, err := opener.ensure(t.Context(), kopia, datamover.Repository{Path: "kopia/a"}, "c", "a", false)
	require.NoError(t, err)
	require.Equal(t, []string{"kopia/a"}, kopia.created)
	var made velerov1.BackupRepository
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: "a-c-kopia"}, &made))
	require.Equal(t, velerov1.RepositoryTypeKopia, made.Spec.RepositoryType)
	require.Zero(t, made.Spec.MaintenanceFrequency, "the server sets it")

	foreign := &velerov1.BackupRepository{}
	foreign.Name, foreign.Spec.VolumeNamespace = distinctName("x-y-z-restic", "x", "y-z"), "other"
	taken := foreign.DeepCopy()
	taken.Name = "x-y-z-restic"
	for _, one := range []*velerov1.BackupRepository{foreign, taken} {
		one.Spec.RepositoryType, one.Spec.MaintenanceFrequency.Duration = velerov1.RepositoryTypeRestic, time.Hour
		cluster.Add(t, one)
	}
	require.ErrorContains(t, ensure("x", "y-z"), `is of namespace "other" in location "", delete it`)
}

// TestRepositoriesThatAreGoneAreCreatedAgain removes a repository whose BackupRepository is Ready. Of two loads that do
// not find it, one creates it again and says so.
func TestRepositoriesThatAreGoneAreCreatedAgain(t *testing.T) {
	t.Parallel()
	cluster := controllertest.NewCluster(t, nil)
	opener := &Opener{Cluster: cluster.Cluster, Identity: "agent", Now: time.Now}
	mover := &creator{name: velerov1.KopiaDataMover, exist: map[string]bool{}}
	ensure := func(gone bool) string {
		warning, err := opener.ensure(t.Context(), mover, datamover.Repository{Path: "kopia/shop"}, "l", "shop", gone)
		require.NoError(t, err)
		return warning
	}
	status := func() velerov1.BackupRepositoryStatus {
		known := new(velerov1.BackupRepository)
		require.NoError(t, cluster.Live.Get(t.Context(),
			client.ObjectKey{Namespace: cluster.Namespace, Name: "shop-l-kopia"}, known))
		if known.Spec.MaintenanceFrequency.Duration == 0 { // as the server does
			known.Spec.MaintenanceFrequency.Duration = time.Hour
			require.NoError(t, cluster.Update(t.Context(), known))
		}
		return known.Status
	}
	require.Empty(t, ensure(false), "it is new")
	require.Equal(t, velerov1.BackupRepositoryPhaseReady, status().Phase)
	clear(mover.exist)
	warning := ensure(true)
	require.Contains(t, warning, "the repository of namespace shop in location l did not exist any more and was created "+
		"again at ")
	require.Equal(t, velerov1.BackupRepositoryPhaseReady, status().Phase)
	require.Equal(t, warning, status().Message)
	require.Empty(t, ensure(true), "it exists again")
	require.Equal(t, []string{"kopia/shop", "kopia/shop"}, mover.created)
}

// TestLoadsWaitForMaintenance has a load wait for the claim of maintenance that needs the repository alone, and for a
// second one that begins just when the first has ended.
func TestLoadsWaitForMaintenance(t *testing.T) {
	t.Parallel()
	cluster := controllertest.NewCluster(t, nil)
	opener := &Opener{Cluster: cluster.Cluster, Identity: "agent", Now: time.Now}
	mover := &creator{name: velerov1.ResticDataMover}
	await := func(wait func(bool) error) error {
		return opener.AwaitMaintenance(t.Context(), mover, "l", "shop", wait)
	}
	never := func(bool) error { return errors.New("it waits") }
	require.NoError(t, await(never), "there is no repository")
	_, err := opener.ensure(t.Context(), mover, datamover.Repository{}, "l", "shop", false)
	require.NoError(t, err)
	require.NoError(t, await(never), "there is no claim")

	claim := func(c *run.Maintenance) {
		of := new(velerov1.BackupRepository)
		require.NoError(t, cluster.Live.Get(t.Context(),
			client.ObjectKey{Namespace: cluster.Namespace, Name: "shop-l-restic"}, of))
		before := of.DeepCopy()
		require.NoError(t, run.SetMaintenance(of, c))
		require.NoError(t, cluster.Patch(t.Context(), of, client.MergeFrom(before)))
	}
	claim(&run.Maintenance{Job: "beside"})
	require.NoError(t, await(never), "it does not need the repository alone")
	claim(&run.Maintenance{Job: "first", Alone: true})
	var states []bool
	require.NoError(t, await(func(waits bool) error {
		states = append(states, waits)
		switch len(states) {
		case 1, 3:
			claim(nil)
		case 2:
			claim(&run.Maintenance{Job: "second", Alone: true})
		}
		return nil
	}))
	require.Equal(t, []bool{true, false, true, false}, states)

	claim(&run.Maintenance{Job: "third", Alone: true})
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, opener.AwaitMaintenance(ctx, mover, "l", "shop", func(bool) error {
		cancel()
		return nil
	}), context.Canceled)
}
