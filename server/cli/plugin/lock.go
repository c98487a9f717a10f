package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

func newLockCommand(a *command.App) *cobra.Command {
	f := plugindir.Flags{Path: config.Defaults().PluginDir}
	var skipBroken, check bool
	var output string
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Write " + pluginlock.FileName + ": which plugin files a server may run, by their content",
		Long: "Start each file in the plugin directory, ask what it provides, and write that with the sum of its content " +
			"into the\n" +
			"lock. A server with the lock runs these files and no others. The command prints the differences from the " +
			"previous\n" +
			"lock.",
		Example: "  cleat plugin lock --plugin-dir ./plugins\n  cleat plugin lock --plugin-dir ./plugins --check",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(command.CheckForm(output, "table"), f.Complete(cmd)); err != nil {
				return err
			}
			before, err := pluginlock.Read(f.LockPath())
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w; repair the lock, or remove it to write a new one", err)
			}
			lock, changes, err := lockDirectory(cmd.Context(), a, &f)
			if err != nil {
				return err
			}
			changes.Changes = pluginstatus.CompareLocks(before, lock)
			changes.Refused = len(changes.Broken) > 0 && !skipBroken
			changes.Absent = check && before == nil
			if !changes.Refused && !check && (len(changes.Changes) > 0 || before == nil) {
				if err := lock.Write(f.LockPath()); err != nil {
					return err
				}
				changes.Written = true
			}
			if err := a.Print(output, []string{"table"}, changes, func() error { return changes.Print(a.Out) }); err != nil {
				return err
			}
			return changes.Verdict()
		},
	}
	f.Add(cmd, "directory to lock")
	cmd.Flags().BoolVar(&skipBroken, "skip-broken", false, "leave out unusable files instead of refusing to write")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; fail if the lock would change")
	command.AddOutput(cmd, &output, "table")
	return cmd
}

// lockDirectory returns the lock of the directory, and the files that cannot be in it. It takes the sums first and runs
// only files with these sums, so that sum and plugins belong together.
func lockDirectory(
	ctx context.Context, a *command.App, f *plugindir.Flags,
) (*pluginlock.Lock, *pluginstatus.LockChanges, error) {
	c := &pluginstatus.LockChanges{APIVersion: status.APIVersion, Kind: "PluginLockChanges", Lock: f.LockPath(),
		Broken: []pluginstatus.FileProblem{}, Partial: []pluginstatus.FileProblem{}}
	contents := &pluginlock.Lock{}
	err := visit(ctx, a, f, &pluginlock.Lock{}, func(host *pluginhost.Host, relative string, file plugindir.File) {
		sum, err := host.Sum(file.Path)
		if err != nil {
			c.Broken = append(c.Broken, pluginstatus.FileProblem{File: relative, Reason: cmp.Or(file.Problem, err.Error())})
			return
		}
		contents.Plugins = append(contents.Plugins, pluginlock.Plugin{Path: relative, SHA256: sum}) // Provides follows
	})
	if err != nil {
		return nil, nil, err
	}
	contents.Sort()

	lock := &pluginlock.Lock{}
	err = visit(ctx, a, f, contents, func(_ *pluginhost.Host, relative string, file plugindir.File) {
		plugin, known := contents.Plugin(relative)
		if !known {
			return // it is broken or new
		}
		provides, err := lockable(file)
		if err != nil {
			c.Broken = append(c.Broken, pluginstatus.FileProblem{File: relative, Reason: err.Error()})
			return
		}
		if len(file.Partial) > 0 {
			c.Partial = append(c.Partial, pluginstatus.FileProblem{File: relative, Reason: strings.Join(file.Partial, "\n")})
		}
		plugin.Provides = provides
		lock.Plugins = append(lock.Plugins, plugin)
	})
	if err != nil {
		return nil, nil, err
	}
	lock.Sort()
	slices.SortFunc(c.Broken, func(a, b pluginstatus.FileProblem) int { return strings.Compare(a.File, b.File) })
	c.Files = len(lock.Plugins)
	return lock, c, nil
}

// visit starts a host with a lock for the directory, and calls see for each file that it finds.
func visit(
	ctx context.Context, a *command.App, f *plugindir.Flags, lock *pluginlock.Lock, see func(host *pluginhost.Host,
		relative string, file plugindir.File),
) error {
	source, err := f.Open(ctx, a, lock)
	if err != nil {
		return err
	}
	defer source.Host.Close()
	report := source.Report()
	for _, file := range plugindir.Files(source.Host) {
		relative, below := report.Relative(file.Path)
		if !below {
			return fmt.Errorf("%s is not below the plugin directory %s", file.Path, report.Directory)
		}
		see(source.Host, relative, file)
	}
	return nil
}

// lockable returns the plugins of a file in the form of a lock, or an error if the file cannot be in a lock.
func lockable(file plugindir.File) ([]pluginlock.Provided, error) {
	if file.Problem != "" {
		return nil, errors.New(file.Problem)
	}
	provides := pluginlock.Provides(file.Listed)
	for _, provided := range provides {
		if err := provided.Validate(); err != nil {
			return nil, err
		}
	}
	return provides, nil
}
