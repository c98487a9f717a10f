package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

func newAddCommand(a *command.App) *cobra.Command {
	add := adding{app: a, pull: string(corev1.PullIfNotPresent)}
	var confirm bool
	cmd := &cobra.Command{
		Use:   "add IMAGE",
		Short: "Add the plugins of a container image",
		Long: "Add an image to the Deployment of the server, as an init container that copies its plugin files, as Velero " +
			"does. The server's pod\n" +
			"starts anew. With --key, the signature of the image is verified before that, and the Deployment names it by its " +
			"digest.\n\n" +
			"With --plugin-dir, no cluster is needed: the command pulls the image, takes the files below its /plugins, " +
			"compares them with the lock of\n" +
			"the directory, checks that they work on this machine, and moves them into the directory. A running server " +
			"notices. For the check, each\n" +
			"program is started without rights, environment and network. IMAGE names an image of a registry, or is the path " +
			"of an OCI layout or of a\n" +
			"tarball.",
		Example: `  cleat plugin add velero/velero-plugin-for-aws:v1.13.0 --confirm
  cleat plugin add registry.example.io/mover:v1 --key cosign.pub --confirm
  cleat plugin add velero/velero-plugin-for-aws:v1.13.0 --plugin-dir ./plugins
  cleat plugin add registry.example.io/mover@sha256:... --plugin-dir ./plugins --key cosign.pub
  cleat plugin add ./mover.tar --plugin-dir ./plugins --lock`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := add.directory.Complete(cmd); err != nil {
				return err
			}
			if add.directory.Path != "" {
				return add.toDirectory(cmd.Context(), args[0])
			}
			if add.updateLock {
				return errors.New("--lock is for a directory: use it with --plugin-dir")
			}
			return add.toCluster(cmd.Context(), args[0], confirm)
		},
	}
	flags := cmd.Flags()
	add.directory.Add(cmd, "add the plugins to this directory, without a cluster; empty adds the image to the server in "+
		"the cluster")
	flags.StringVar(&add.pull, "image-pull-policy", add.pull, "when a node pulls the image: Always, IfNotPresent or Never")
	flags.BoolVar(&confirm, "confirm", false, "do not ask before the server's pod starts anew")
	add.registry.Add(flags, "the image")
	flags.BoolVar(&add.updateLock, "lock", false, "write the files into "+pluginlock.FileName+" as well, if there is one")
	return cmd
}

// adding is the command "add".
type adding struct {
	app        *command.App
	directory  plugindir.Flags
	registry   command.Registry
	pull       string
	updateLock bool
}

// toCluster adds an image to the Deployment of the server.
func (c *adding) toCluster(ctx context.Context, image string, confirmed bool) error {
	pull := corev1.PullPolicy(c.pull)
	switch pull {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		return fmt.Errorf("--image-pull-policy %q: want Always, IfNotPresent or Never", c.pull)
	}
	if err := c.registry.Pin(ctx, c.app, &image); err != nil {
		return err
	}
	if !confirmed {
		if err := c.app.Confirm("The server's pod will start anew, and take up what runs. Add the plugins?"); err != nil {
			return err
		}
	}
	cluster, err := c.app.Cluster.Connect()
	if err != nil {
		return err
	}
	deployment, err := changeServer(ctx, cluster, func(d *deployment) error { return install.AddPlugin(d, image, pull) })
	if err != nil {
		return fmt.Errorf("add %s: %w", image, err)
	}
	fmt.Fprintf(c.app.Out, "Image %s was added to Deployment %s.\n", image, deployment)
	return nil
}

// toDirectory takes the plugin files out of an image into a directory.
func (c *adding) toDirectory(ctx context.Context, ref string) (err error) {
	resolver := c.registry.Resolver()
	resolver.Platform = v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	image, err := resolver.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	if len(c.registry.Keys) > 0 {
		if err := image.Verify(c.registry.Keys...); err != nil {
			return err
		}
	} else if image.ByTag {
		fmt.Fprintf(c.app.Err, "Image %s is not verified: its registry decides what the tag stands for. --key verifies a "+
			"signature; its digest names what you see now: %s\n",
			ref, image.Digest)
	}
	store, err := pluginimage.OpenStore(c.directory.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	stage, err := store.Stage()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	added := pluginimage.Installed{Image: ref, Digest: image.Digest.String()}
	if added.Files, err = image.Extract(stage); err != nil {
		return err
	}
	if err := store.CheckNew(added); err != nil {
		return fmt.Errorf("add %s: %w", ref, err)
	}
	if err := c.checkFiles(ctx, stage, added.Files); err != nil {
		return fmt.Errorf("add %s (%s): %w", ref, image.Digest, err)
	}
	if err := store.Add(added, stage); err != nil {
		return fmt.Errorf("add %s: %w; the same command completes what it began", ref, err)
	}
	for _, file := range added.Files {
		fmt.Fprintf(c.app.Out, "%s\n", filepath.Join(c.directory.Path, filepath.FromSlash(file.Name)))
	}
	fmt.Fprintf(c.app.Err, "Added from %s, digest %s.\n", ref, image.Digest)
	return nil
}

// checkFiles compares the files in the directory stage with the lock. Then it starts them, to check that they are
// plugins, and updates the lock if that was requested.
func (c *adding) checkFiles(ctx context.Context, stage string, files []pluginimage.File) error {
	lock, err := c.directory.ReadLock()
	if err != nil {
		return err
	}
	if lock != nil && !c.updateLock {
		if err := checkLocked(lock, files); err != nil {
			return err
		}
	}
	stage, err = filepath.Abs(stage)
	if err != nil {
		return err
	}
	found, err := ask(ctx, stage, files, c.directory.Verbose(c.app.Err),
		func(note string) { fmt.Fprintf(c.app.Err, "Note: %s\n", note) })
	if err != nil || lock == nil || !c.updateLock {
		return err
	}
	return lock.With(found).Write(c.directory.LockPath())
}

// checkLocked returns an error unless the lock has all files. It lists plugins only; other files may be read or started
// by a plugin.
func checkLocked(lock *pluginlock.Lock, files []pluginimage.File) error {
	var problems error
	for _, file := range files {
		if !file.Executable {
			problems = errors.Join(problems, fmt.Errorf("file %s is no plugin, so the lock cannot name it; if it may be in "+
				"the directory, add the image with --lock", file.Name))
			continue
		}
		if err := lock.Check(file.Name, file.SHA256); err != nil {
			problems = errors.Join(problems, fmt.Errorf("file %s must not run: %w, or add the image with --lock", file.Name,
				err))
		}
	}
	return problems
}
