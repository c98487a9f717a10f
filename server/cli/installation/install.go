package installation

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/server/internal/setup/install/chart"
)

// NewInstall returns the command "install".
func NewInstall(a *command.App) *cobra.Command {
	f := newFlags(a)
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the server into the cluster, or bring it up to date",
		Long: "Install the server, its custom resource definitions and its default locations, under the names and labels " +
			"that Velero uses.\n" +
			"Objects that exist are left as they are; with --apply they are brought up to date. Flags of \"cleat server\" " +
			"that are given\n" +
			"are flags of the installed server.",
		Example: `  cleat install --provider cleat.dev/s3 --bucket backups --secret-file ./credentials --backup-location-config region=eu-central-1 --wait
  cleat install --provider aws --plugins velero/velero-plugin-for-aws:v1.13.0 --bucket backups --secret-file ./credentials
  cleat install --provider cleat.dev/s3 --bucket backups --secret-file ./credentials --use-node-agent --default-volumes-to-fs-backup
  cleat install --provider cleat.dev/s3 --bucket backups --no-secret --rbac least --rbac-namespaces shop,blog
  cleat install --no-default-backup-location --use-volume-snapshots=false --no-secret --dry-run -o yaml
  cleat install --crds-only`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, a) },
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *flags) run(cmd *cobra.Command, a *command.App) error {
	if f.form != "" && f.form != "yaml" && f.form != "json" {
		return fmt.Errorf("--output %q: want json or yaml", f.form)
	}
	if f.dryRun && f.form == "" {
		f.form = "yaml"
	}
	if f.chartDir != "" {
		return f.writeChart(a)
	}
	if f.definitionsOnly {
		return f.installDefinitions(cmd.Context(), a)
	}
	options, err := f.options(cmd, a)
	if err != nil {
		return err
	}
	images := []*string{&options.Image}
	for i := range options.Plugins {
		images = append(images, &options.Plugins[i])
	}
	if options.NodeAgent != nil {
		for i := range options.NodeAgent.Plugins {
			images = append(images, &options.NodeAgent.Plugins[i])
		}
	}
	if err := f.registry.Pin(cmd.Context(), a, images...); err != nil {
		return err
	}
	if f.form != "" {
		objects, err := install.Objects(options)
		if err != nil {
			return err
		}
		return printList(a.Out, f.form, objects)
	}
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	if err := install.Apply(cmd.Context(), cluster, options, f.apply, f.reporter(a)); err != nil {
		return err
	}
	if f.wait {
		err := install.AwaitServer(cmd.Context(), cluster, cluster.Namespace, install.DeploymentName,
			func(why string) { fmt.Fprintf(a.Err, "Waiting for the server: %s.\n", why) })
		if err == nil && options.NodeAgent != nil {
			err = install.AwaitNodeAgents(cmd.Context(), cluster, cluster.Namespace, install.DaemonSetName,
				func(why string) { fmt.Fprintf(a.Err, "Waiting for the node agents: %s.\n", why) })
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Out, "The server is installed in namespace %s; \"kubectl -n %s logs deployment/velero\" shows its "+
		"log.\n", cluster.Namespace, cluster.Namespace)
	return nil
}

// installDefinitions installs or prints the definitions and nothing else.
func (f *flags) installDefinitions(ctx context.Context, a *command.App) error {
	if f.form != "" {
		objects, err := install.DefinitionObjects()
		if err != nil {
			return err
		}
		return printList(a.Out, f.form, objects)
	}
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	return install.Definitions(ctx, cluster,
		func(name, action string) { f.reporter(a)("customresourcedefinition/"+name, action) })
}

// writeChart writes the Helm chart, whose values replace the other flags.
func (f *flags) writeChart(a *command.App) error {
	if len(f.registry.Keys) > 0 {
		return errors.New("--key: the images of a chart are those of its values, so they cannot be verified now; leave out " +
			"--helm or --key")
	}
	f.nodeAgent.use = true
	agent, err := f.nodeAgent.options(a, f.o.Image, f.server.UploaderType)
	if err := errors.Join(err, f.setPod()); err != nil {
		return err
	}
	f.o.NodeAgent = agent
	written := chart.Chart{Version: a.Version, Image: f.o.Image, Options: &f.o}
	f.serverFlags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			written.Flags = append(written.Flags, flag)
		}
	})
	f.nodeAgent.agent.VisitAll(func(flag *pflag.Flag) { written.AgentFlags = append(written.AgentFlags, flag) })
	if err := written.Write(f.chartDir); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "The chart is in %s; its README.md says how to use it.\n", f.chartDir)
	return nil
}

func (f *flags) reporter(a *command.App) func(name, action string) {
	return func(name, action string) { fmt.Fprintf(a.Out, "%s %s\n", name, action) }
}

// printList prints objects as a List, as Velero's client does.
func printList(w io.Writer, form string, objects []*unstructured.Unstructured) error {
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object.Object)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	if form == "json" {
		return layout.PrintJSON(w, list)
	}
	return layout.PrintYAML(w, list)
}
