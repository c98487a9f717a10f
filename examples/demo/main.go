// Command demo backs up, deletes and restores some three thousand objects, and compares each of them with the
// original. Then it shows a queue of eight backups, some of which overlap, and data movers that back up and restore
// volumes. It starts a control plane and an S3 server. If KUBECONFIG names a cluster, the demo uses that instead of
// the control plane and shows neither the queue nor the movers. Run it with "make demo".
//
// With -volumes, it uses a node with a real kubelet instead: it backs up, deletes and restores the namespace of some
// pods with their volumes, by the data mover for -uploader, and compares the files. Run it with "make demo-volumes".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/roundtrip"
	"github.com/cleat-dev/cleat/server/test/world"
)

func main() {
	cleat := flag.String("cleat", "bin/cleat", "path of the cleat binary")
	plugins := flag.String("plugins", "bin/plugins", "plugin directory")
	movers := flag.String("movers", "bin/movers", "plugin directory with the data movers")
	volumes := flag.Bool("volumes", false, "show volumes of pods, with the data mover in the directory of data movers")
	uploader := flag.String("uploader", "kopia", "engine with which -volumes stores volumes: kopia or restic")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *volumes {
		err = demoVolumes(ctx, *cleat, *movers, *uploader)
	} else {
		err = demo(ctx, *cleat, *plugins, *movers)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, cleat, plugins, movers string) error {
	start := time.Now()
	cluster, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "demo:", err)
		}
	}()
	kubeconfig := cluster.Kubeconfig
	if own := os.Getenv("KUBECONFIG"); own != "" {
		kubeconfig = own
	}
	work, err := os.MkdirTemp("", "cleat-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Mkdir(cluster.S3.Dir+"/demo", 0o755); err != nil {
		return err
	}
	fmt.Printf("an API server, its controllers and an S3 server are running (%.1fs)\n", time.Since(start).Seconds())

	options := roundtrip.Options{
		Site: roundtrip.Site{
			Cleat: cleat, PluginDir: plugins, Kubeconfig: kubeconfig, S3: cluster.S3, Bucket: "demo", WorkDir: work,
			Terminal: term.IsTerminal(int(os.Stdout.Fd())),
		},
		World: world.Demo("demo"), Keep: kubeconfig == cluster.Kubeconfig, Out: os.Stdout, Movers: movers,
	}
	report, err := roundtrip.Run(ctx, options)
	if err != nil {
		return err
	}
	for i, d := range report.Differences {
		if i == 20 {
			fmt.Printf("... and %d more\n", len(report.Differences)-i)
			break
		}
		fmt.Println(d)
	}
	fmt.Printf("restored %d of %d objects, %d differences\n", report.Objects-missing(report.Differences), report.Objects,
		len(report.Differences))
	if len(report.Differences) > 0 {
		return fmt.Errorf("%d differences", len(report.Differences))
	}
	if options.Keep {
		if err := roundtrip.Queue(ctx, options); err != nil {
			return err
		}
		if err := roundtrip.Movers(ctx, options); err != nil {
			return err
		}
	}
	fmt.Printf("done in %.0fs\n", time.Since(start).Seconds())
	return nil
}

func missing(differences []world.Difference) int {
	n := 0
	for _, d := range differences {
		if d.After == "missing" {
			n++
		}
	}
	return n
}
