package volumes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cleat-dev/cleat/server/test/site"
)

// storage is the control plane with the volumes of a CSI driver. The other one has no resources of snapshots, which
// would be part of every backup.
var storage site.Plane

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cleat-csi-*")
	if err != nil {
		panic(err)
	}
	storage.Options.CSISocket = filepath.Join(dir, "csi.sock")
	code := site.Main(m, storage.Stop)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
