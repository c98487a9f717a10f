package manifest

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
)

// NewCommand returns the command "manifest".
func NewCommand(a *command.App) *cobra.Command {
	cmd := command.NewParent("manifest", "Show what is in backups, and how it depends on each other",
		newListCommand(a), newGetCommand(a), newDiffCommand(a), newOverlapCommand(a), newGraphCommand(a), newWhyCommand(a))
	cmd.Long = "Show what is in backups, and how it depends on each other, from their manifests: no archive is " +
		"downloaded.\n\n" +
		"BACKUP|FILE is the name of a backup, or a file: what exists, has a slash or ends in .gz, or - for stdin. A file " +
		"is a manifest\n" +
		"(NAME-manifest.json.gz of a backup) or the archive of a backup. The manifest of a backup that has none is made " +
		"from its archive.\n\n" +
		"ITEM is RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME of a cluster-scoped item, or both parts as two arguments. The " +
		"resource is a\n" +
		"plural, kind or short name, with or without its group. The namespace may be left out if one item has the name."
	return cmd
}

// flags are the flags of all commands.
type flags struct {
	downloads runs.Downloads
	output    string
}

// add adds the flags. The first of forms is the default of --output.
func (f *flags) add(cmd *cobra.Command, forms ...string) {
	f.downloads.Add(cmd.Flags(), downloadTimeout)
	command.AddOutput(cmd, &f.output, forms...)
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(append(forms, "json", "yaml"),
		cobra.ShellCompDirectiveNoFileComp))
}

// itemArgs accepts an item after the source, as one or two arguments.
func itemArgs(cmd *cobra.Command, args []string) error { return cobra.RangeArgs(2, 3)(cmd, args) }

// completeBackups completes the names of the first most arguments.
func completeBackups(a *command.App, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		var backups velerov1.BackupList
		cluster, err := a.Cluster.Connect()
		if err == nil {
			err = cluster.List(ctx, &backups, client.InNamespace(cluster.Namespace))
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault // files
		}
		var names []cobra.Completion
		for i := range backups.Items {
			names = append(names, backups.Items[i].Name)
		}
		return names, cobra.ShellCompDirectiveDefault
	}
}

// closeAll closes sources, and returns err with the errors of that.
func closeAll(err error, sources ...*Source) error {
	for _, s := range sources {
		err = errors.Join(err, s.Close())
	}
	return err
}
