package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/module"
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
			latest := options.Framework == "" && !isRelease(a.Version)
			if options.Framework == "" && !latest {
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
			if latest {
				fmt.Fprintf(a.Err, "This cleat (%s) is no release, so the project is built on the latest one; "+
					"for another, or a source tree, say --framework.\n", a.Version)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "folder to write to; the word behind the slash of NAME when left out")
	flags.StringVar(&options.Module, "module", "", "path of the Go module; NAME when left out")
	flags.StringSliceVar(&options.Kinds, "kind", nil, "kinds of plugin to begin with, may be repeated (default BackupItemAction)")
	flags.StringVar(&options.Framework, "framework", "",
		"version of the framework to build on, or the path of a source tree of it, which images are not built with (default the version of this program)")
	return cmd
}

// isRelease tells whether version is one that others can build on.
func isRelease(version string) bool {
	return semver.IsValid(version) && semver.Build(version) == "" && !module.IsPseudoVersion(version)
}
