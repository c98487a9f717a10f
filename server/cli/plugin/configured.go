package plugin

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Configured returns what the plugins of a report were configured with, as whoever asks may read it.
func Configured(
	ctx context.Context, cluster *command.Cluster, r *serverreport.PluginReport,
) *pluginstatus.Configured {
	file, from, noFile := cluster.ServerConfig(ctx)
	var locations velerov1.BackupStorageLocationList
	var snapshots velerov1.VolumeSnapshotLocationList
	noLocations := list(ctx, cluster, "backupstoragelocations", &locations)
	noSnapshots := list(ctx, cluster, "volumesnapshotlocations", &snapshots)
	c := pluginstatus.NewConfigured(r, file, from, locations.Items, snapshots.Items)
	if err := errors.Join(noFile, noLocations, noSnapshots); err != nil {
		c.Problem = layout.OneLine(err.Error())
	}
	return c
}

// list lists objects of the namespace. The text of an error is a sentence for people.
func list(ctx context.Context, cluster *command.Cluster, kinds string, into client.ObjectList) error {
	err := cluster.List(ctx, into, client.InNamespace(cluster.Namespace))
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not list %s in namespace %s", kinds, cluster.Namespace)
	}
	return err
}
