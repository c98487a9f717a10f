package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/cleat-dev/cleat/server/plugininit"
)

func (a *App) pluginInitCommand() *cobra.Command {
	var options plugininit.Options
	var dir string
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Write the project of a new plugin: code, tests, Makefile, Dockerfile, CI",
		Long: `Write the project of a new plugin, which builds and whose tests pass as written.

NAME is how the host and users call the plugin: a domain of yours, a slash, and a word, like example.io/stamp.
Kinds (--kind, any number of them) are ` + strings.Join(plugininit.Kinds(), ", ") + `.`,
		Example: `  cleat plugin init example.io/stamp
  cleat plugin init example.io/mover --kind AsyncBackupItemAction --kind AsyncRestoreItemAction --module github.com/example/mover`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			options.Name = args[0]
			if options.Framework == "" && semver.IsValid(a.Version) {
				options.Framework = a.Version
			}
			if dir == "" {
				folder, err := plugininit.Folder(options.Name)
				if err != nil {
					return err
				}
				dir = folder
			}
			files, err := plugininit.Write(dir, options)
			if err != nil {
				return err
			}
			for _, file := range files {
				fmt.Fprintln(a.Out, filepath.Join(dir, filepath.FromSlash(file.Path)))
			}
			fmt.Fprintf(a.Err, "\nNext:\n  cd %s\n  make test build\nREADME.md there says how to go on.\n", dir)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "folder to write to; the word behind the slash of NAME when left out")
	flags.StringVar(&options.Module, "module", "", "path of the Go module; NAME when left out")
	flags.StringArrayVar(&options.Kinds, "kind", nil, "kind of plugin to begin with, may be repeated (default BackupItemAction)")
	flags.StringVar(&options.Framework, "framework", "",
		"version of the framework to build on, or the path of its source tree (default the version of this program)")
	return cmd
}
