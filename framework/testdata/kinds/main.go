// Command kinds serves one implementation of every kind and version that command plugin leaves out. One name is
// registered for two versions, as in a plugin that must also run in older servers.
package main

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
)

func main() {
	framework.Serve(
		framework.WithVersion("1.2.3"),
		biav1.Register("example.io/mover", func(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
			return oldMover{}, nil
		}),
		biav2.Register("example.io/mover", func(context.Context, *framework.Setup) (biav2.BackupItemAction, error) {
			return mover{}, nil
		}),
		riav2.Register("example.io/fetcher", func(context.Context, *framework.Setup) (riav2.RestoreItemAction, error) {
			return fetcher{}, nil
		}),
		diav1.Register("example.io/forget", func(context.Context, *framework.Setup) (diav1.DeleteItemAction, error) {
			return forget{}, nil
		}),
		ibav1.Register("example.io/shards", func(context.Context, *framework.Setup) (ibav1.ItemBlockAction, error) {
			return shards{}, nil
		}),
		vsv1.Register("example.io/san", newSAN, framework.WithConfig(location{})),
		abiav1.Register("example.io/copier", func(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
			return copier{}, nil
		}),
		ariav1.Register("example.io/copier", func(context.Context, *framework.Setup) (ariav1.AsyncRestoreItemAction, error) {
			return recopier{}, nil
		}),
		qav1.Register("example.io/first-come", newFirstCome, framework.WithConfig(admission{})),
		lsv1.Register("example.io/limit", func(context.Context, *framework.Setup) (lsv1.LoadSoothing, error) {
			return limit{}, nil
		}),
		dmv1.Register("example.io/shelf", func(context.Context, *framework.Setup) (dmv1.DataMover, error) {
			return shelf{}, nil
		}),
		mwv1.Register("example.io/inventory", func(context.Context, *framework.Setup) (mwv1.ManifestWriter, error) {
			return inventory{}, nil
		}),
	)
}
