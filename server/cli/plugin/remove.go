package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

func newRemoveCommand(a *command.App) *cobra.Command {
	var f plugindir.Flags
	cmd := &cobra.Command{
		Use:   "remove NAME|IMAGE",
		Short: "Remove the plugins of a container image",
		Long: "Remove an init container from the Deployment of the server, by its name or image. The server's pod starts " +
			"anew.\n" +
			"With --plugin-dir, remove the files that \"add\" has taken out of an image, by its name, its digest or one of " +
			"its files.",
		Example: "  cleat plugin remove velero-velero-plugin-for-aws\n  cleat plugin remove " +
			"velero/velero-plugin-for-aws:v1.13.0 --plugin-dir ./plugins",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.Complete(cmd); err != nil {
				return err
			}
			if f.Path != "" {
				return removeFromDirectory(a, &f, args[0])
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			image := ""
			name, err := changeServer(cmd.Context(), cluster, func(d *deployment) (err error) {
				image, err = install.RemovePlugin(d, args[0])
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "Image %s was removed from Deployment %s.\n", image, name)
			return nil
		},
	}
	f.Add(cmd, "remove the plugins from this directory, without a cluster; empty removes the image from the server in "+
		"the cluster")
	return cmd
}

func removeFromDirectory(a *command.App, f *plugindir.Flags, what string) (err error) {
	store, err := pluginimage.OpenStore(f.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	image, err := store.Remove(what)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "The files of image %s were removed.\n", image.Image)
	lock, err := f.ReadLock()
	if err != nil {
		return err
	}
	for _, file := range image.Files {
		if lock == nil {
			break
		}
		if _, locked := lock.Plugin(file.Name); locked {
			fmt.Fprintf(a.Err, "%s still has %s; \"cleat plugin lock\" writes it again.\n", pluginlock.FileName, file.Name)
		}
	}
	return nil
}

type deployment = appsv1.Deployment

// changeServer changes the Deployment of the server and returns its name. Changes of others at the same time are kept.
func changeServer(ctx context.Context, cluster *command.Cluster, change func(*deployment) error) (string, error) {
	for {
		var list appsv1.DeploymentList
		if err := cluster.List(ctx, &list, client.InNamespace(cluster.Namespace), install.ComponentLabels()); err != nil {
			return "", err
		}
		server, err := install.ServerOf(list.Items)
		if err != nil {
			return "", err
		}
		before := server.DeepCopy()
		if err := change(server); err != nil {
			return "", err
		}
		err = cluster.Patch(ctx, server, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return server.Name, err
		}
	}
}
