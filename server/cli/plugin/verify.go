package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/pluginreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

func newVerifyCommand(a *command.App) *cobra.Command {
	f := plugindir.Flags{Path: config.Defaults().PluginDir}
	var output string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the files of a plugin directory against " + pluginlock.FileName,
		Long: "Check that the plugin directory has the files of the lock and no others, and that their sums and their " +
			"plugins are\n" +
			"those of the lock. Files with another sum are not started. The command fails if anything is wrong.",
		Example: "  cleat plugin verify --plugin-dir ./plugins",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Complete(cmd); err != nil {
				return err
			}
			lock, err := pluginlock.Read(f.LockPath())
			if err != nil {
				return err
			}
			source, err := f.Open(cmd.Context(), a, lock)
			if err != nil {
				return err
			}
			defer source.Host.Close()
			v := verify(source)
			if err := a.Print(output, []string{"table"}, v, func() error { return v.Print(a.Out) }); err != nil {
				return err
			}
			if wrong := v.Wrong(); wrong > 0 {
				return fmt.Errorf("%d of %s do not match the lock", wrong, layout.Count(len(v.Files), "file"))
			}
			return nil
		},
	}
	f.Add(cmd, "directory to check")
	command.AddOutput(cmd, &output, "table")
	return cmd
}

// verify compares the files that a host found with those of its lock.
func verify(source *pluginreport.Source) *pluginstatus.Verification {
	report, lock := source.Report(), source.Lock
	found := map[string]plugindir.File{}
	paths := map[string]bool{}
	for _, file := range plugindir.Files(source.Host) {
		relative, below := report.Relative(file.Path)
		if !below {
			relative = file.Path
		}
		found[relative], paths[relative] = file, true
	}
	for _, plugin := range lock.Plugins {
		paths[plugin.Path] = true
	}
	v := &pluginstatus.Verification{APIVersion: status.APIVersion, Kind: "PluginVerification", Lock: source.LockPath,
		Files: []pluginstatus.VerifiedFile{}}
	for _, relative := range slices.Sorted(maps.Keys(paths)) {
		file, was := found[relative]
		state, reason := verifyFile(lock, report.Directory, relative, file, was)
		v.Files = append(v.Files, pluginstatus.VerifiedFile{File: relative, State: state, Reason: reason, ToDo: state.ToDo()})
	}
	v.Right = v.Wrong() == 0
	return v
}

// verifyFile returns the state of a file, with a reason unless the state is FileOK. found reports whether the host has
// it.
func verifyFile(
	lock *pluginlock.Lock, directory, relative string, file plugindir.File, found bool,
) (pluginstatus.FileState, string) {
	path := filepath.Join(directory, filepath.FromSlash(relative))
	info, err := os.Stat(path)
	_, locked := lock.Plugin(relative)
	switch {
	case locked && errors.Is(err, fs.ErrNotExist):
		return pluginstatus.FileMissing, pluginlock.MissingReason
	case err != nil:
		return pluginstatus.FileQuarantined, err.Error()
	case !found:
		return pluginstatus.FileQuarantined, fmt.Sprintf("the server ignores it, because it is not executable: its mode is "+
			"%s (chmod +x)", info.Mode())
	}
	sum, err := pluginlock.SumFile(path)
	if err != nil {
		return pluginstatus.FileQuarantined, err.Error()
	}
	switch err := lock.Check(relative, sum); {
	case err != nil && !locked:
		return pluginstatus.FileNotLocked, err.Error()
	case err != nil:
		return pluginstatus.FileChanged, err.Error()
	case file.Problem != "":
		return pluginstatus.FileQuarantined, file.Problem
	case len(file.Partial) > 0:
		return pluginstatus.FileQuarantined, strings.Join(file.Partial, "\n")
	}
	return pluginstatus.FileOK, ""
}
