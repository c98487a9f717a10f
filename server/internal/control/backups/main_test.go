package backups

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/version"

	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

func serverVersion(context.Context) (*version.Info, error) {
	return &version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3"}, nil
}

// newBackups returns a controller that can only validate backups.
func newBackups(c *controllertest.Cluster) *Controller {
	return &Controller{
		Cluster: c.Cluster, ServerVersion: serverVersion, Now: controllertest.Noon, Log: hclog.NewNullLogger(),
		Defaults: Defaults{
			TTL: 720 * time.Hour, ItemOperationTimeout: 4 * time.Hour, CSISnapshotTimeout: 10 * time.Minute,
			ResourceTimeout: 10 * time.Minute, VolumeGroupSnapshotLabel: "velero.io/volume-group", StorageLocation: "default",
		},
	}
}
