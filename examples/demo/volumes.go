package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

// demoVolumes shows volumes of pods. On a machine that cannot run a node, it prints the reason instead.
func demoVolumes(ctx context.Context, cleat, movers, uploader string) (err error) {
	start := time.Now()
	for _, path := range []*string{&cleat, &movers} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	engine, restic := velerov1.RepositoryType(uploader), ""
	if velerov1.MoverOf(engine) == "" {
		return fmt.Errorf("-uploader %q: want kopia or restic", uploader)
	}
	if engine == velerov1.RepositoryTypeRestic {
		if restic, err = programs.FindRestic(); err != nil {
			fmt.Println("nothing to show:", err)
			return nil
		}
	}
	tree, err := programs.Link("server/test/pods/testdata/tree")
	if err != nil {
		return err
	}
	cluster, err := controlplane.Start(ctx, controlplane.Options{Node: true})
	if errors.Is(err, controlplane.ErrNoNode) {
		fmt.Println("nothing to show:", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	work, err := os.MkdirTemp("", "cleat-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Mkdir(cluster.S3.Dir+"/demo", 0o755); err != nil {
		return err
	}
	fmt.Printf("an API server, its controllers, an S3 server and a node with a kubelet are running (%.1fs)\n",
		time.Since(start).Seconds())
	err = roundtrip.PodVolumes(ctx, roundtrip.PodVolumeOptions{
		Options: roundtrip.Options{
			Site: roundtrip.Site{Cleat: cleat, PluginDir: movers, Kubeconfig: cluster.Kubeconfig, S3: cluster.S3,
				Bucket: "demo", WorkDir: work},
			World: world.Demo("demo"), Out: os.Stdout,
		},
		Cluster: cluster, Tree: tree, Uploader: engine, Restic: restic,
	})
	if err == nil {
		fmt.Printf("done in %.0fs\n", time.Since(start).Seconds())
	}
	return err
}
