// Command kinds serves one implementation of every kind and version of Velero's wire that command plugin leaves out. One
// name stands under two versions, as in a plugin that has to run in older servers too.
package main

import (
	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
)

func main() {
	framework.Serve(
		biav1.Register("example.io/mover", func(hclog.Logger) (biav1.BackupItemAction, error) { return oldMover{}, nil }),
		biav2.Register("example.io/mover", func(hclog.Logger) (biav2.BackupItemAction, error) { return mover{}, nil }),
		riav2.Register("example.io/fetcher", func(hclog.Logger) (riav2.RestoreItemAction, error) { return fetcher{}, nil }),
		diav1.Register("example.io/forget", func(hclog.Logger) (diav1.DeleteItemAction, error) { return forget{}, nil }),
		ibav1.Register("example.io/shards", func(hclog.Logger) (ibav1.ItemBlockAction, error) { return shards{}, nil }),
		vsv1.Register("example.io/san", func(hclog.Logger) (vsv1.VolumeSnapshotter, error) { return san{}, nil }),
	)
}
