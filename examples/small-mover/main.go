// Command small-mover is the smallest mover of data: an action for backups and one for restores that copy the directory
// of each PersistentVolumeClaim, in the process of the plugin. See README.md.
package main

import (
	"cmp"
	"os"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
)

func main() {
	settings := framework.WithConfig(config{
		Volumes: cmp.Or(os.Getenv("CLEAT_SMALL_MOVER_VOLUMES"), "/volumes"),
		Copies:  cmp.Or(os.Getenv("CLEAT_SMALL_MOVER_COPIES"), "/copies"),
	})
	framework.Serve(
		abiav1.Register("example.cleat.dev/small-mover", newBackup, settings),
		ariav1.Register("example.cleat.dev/small-mover", newRestore, settings),
	)
}
