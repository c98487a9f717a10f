package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/setup/plugininit"
)

// pluginProject is the document of "plugin init".
type pluginProject struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Directory  string   `json:"directory"`
	Framework  string   `json:"framework,omitempty"` // that it is built on; empty for the latest
	Files      []string `json:"files"`               // relative to the directory
}

// print lists the files and the next steps.
func (p pluginProject) print(a *command.App) error {
	for _, file := range p.Files {
		fmt.Fprintln(a.Out, filepath.Join(p.Directory, filepath.FromSlash(file)))
	}
	fmt.Fprintf(a.Err, "\nNext:\n  cd %s\n  make test build\nREADME.md there says how to go on.\n", p.Directory)
	switch {
	case p.Framework == "":
		fmt.Fprintf(a.Err, "This cleat (%s) is not a release, so the project is built on the latest one; "+
			"for another, or a source tree, say --framework.\n", a.Version)
	case filepath.IsAbs(p.Framework):
		fmt.Fprintf(a.Err, "The project is built on the source tree %s; before its first release, have go.mod require a "+
			"release instead.\n", p.Framework)
	}
	return nil
}

func newInitCommand(a *command.App) *cobra.Command {
	var options plugininit.Options
	var dir, output string
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
			if err := command.CheckForm(output, "text"); err != nil {
				return err
			}
			options.Name = args[0]
			if options.Framework == "" {
				options.Framework = defaultFramework(a.Version)
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
			project := pluginProject{status.APIVersion, "PluginProject", dir, options.Framework, nil}
			for _, file := range files {
				project.Files = append(project.Files, file.Path)
			}
			return a.Print(output, []string{"text"}, project, func() error { return project.print(a) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "folder to write to (default the part of NAME after the slash)")
	flags.StringVar(&options.Module, "module", "", "path of the Go module (default NAME)")
	flags.StringSliceVar(&options.Kinds, "kind", nil, "kinds of plugins, may be repeated (default BackupItemAction)")
	flags.StringVar(&options.Framework, "framework", "",
		"version of the framework to build on, or the path of a source tree of it, which images are not built with "+
			"(default the version of this program; of a development build, the source tree that it or the working directory "+
			"is in)")
	command.AddOutput(cmd, &output, "text")
	return cmd
}

// defaultFramework returns the framework of a project by default: the release of this program, or the source tree of a
// development build. It returns "" for the latest release if there is neither.
func defaultFramework(version string) string {
	if isRelease(version) {
		return version
	}
	var around []string
	for _, find := range []func() (string, error){os.Executable, os.Getwd} {
		if path, err := find(); err == nil {
			around = append(around, path)
		}
	}
	return plugininit.SourceTree(around...)
}

// isRelease reports whether version is a published one.
func isRelease(version string) bool {
	return semver.IsValid(version) && semver.Build(version) == "" && !module.IsPseudoVersion(version)
}
