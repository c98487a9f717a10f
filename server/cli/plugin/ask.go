package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/host/confine"
	"github.com/cleat-dev/cleat/server/internal/host/pluginimage"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

const (
	askName   = "ask"
	askWithin = 5 * time.Minute
	// mostAnswer is how much the process without rights may print, in bytes: many times the list of a real image.
	mostAnswer = 4 << 20
	mostNotes  = 10
	mostReason = 4 << 10 // bytes of the output about a file
)

// answer is the output of the process without rights. It is untrusted, because the programs that it starts may have
// changed it.
type answer struct {
	Notes   []string // confinement that the kernel has refused
	Plugins []pluginlock.Plugin
	Broken  []pluginstatus.FileProblem
}

// newAskCommand returns the command that gives up its rights, and then starts the files of a directory and prints their
// plugins.
func newAskCommand(a *command.App) *cobra.Command {
	var f plugindir.Flags
	cmd := &cobra.Command{
		Use:    askName,
		Short:  "Ask programs what they provide, without rights",
		Hidden: true, // ask starts it
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			confined, err := confine.Enter()
			if err != nil {
				return err
			}
			if err := f.Complete(cmd); err != nil {
				return err
			}
			f.Path, f.NoBuiltIns = confined.Files, true
			lock, changes, err := lockDirectory(cmd.Context(), a, &f)
			if err != nil {
				return err
			}
			return json.NewEncoder(a.Out).Encode(answer{Notes: confined.Notes, Plugins: lock.Plugins, Broken: changes.Broken})
		},
	}
	f.Add(cmd, "ignored")
	return cmd
}

// ask starts the executable files of an image, which are in dir, without rights, environment and network, and returns
// their plugins. note is called for each confinement that the kernel refuses.
func ask(
	ctx context.Context, dir string, files []pluginimage.File, verbose io.Writer, note func(string),
) ([]pluginlock.Plugin, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("the programs did not answer within %s", askWithin))
	defer cancel()
	c := confine.Command{Args: []string{"plugin", askName}, Files: dir, Most: mostAnswer, Verbose: verbose}
	if verbose != nil {
		c.Args = append(c.Args, "--verbose")
	}
	printed, err := c.Output(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the programs what they provide: %s", layout.Printable(err.Error()))
	}
	var got answer
	if err := json.Unmarshal(printed, &got); err != nil {
		return nil, fmt.Errorf("decode what the programs provide: %w", err)
	}
	for _, text := range got.Notes[:min(len(got.Notes), mostNotes)] {
		note(shorten.Text(layout.OneLine(text), mostReason))
	}
	return got.check(files)
}

// check returns the plugins of the programs, if there is an answer for each of the files, and no other answer.
func (a *answer) check(files []pluginimage.File) ([]pluginlock.Plugin, error) {
	var problems error
	for _, broken := range a.Broken {
		problems = errors.Join(problems,
			fmt.Errorf("file %s is not usable: %s", layout.OneLine(shorten.Text(broken.File, mostReason)),
				layout.Printable(shorten.Text(broken.Reason, mostReason))))
	}
	for _, plugin := range a.Plugins {
		if !slices.ContainsFunc(files, func(f pluginimage.File) bool {
			return f.Name == plugin.Path && f.SHA256 == plugin.SHA256
		}) {
			return nil, fmt.Errorf("file %q was changed while it was asked what it provides", plugin.Path)
		}
		for _, provided := range plugin.Provides {
			if err := provided.Validate(); err != nil {
				problems = errors.Join(problems, fmt.Errorf("file %s is not usable: %w", plugin.Path, err))
			}
		}
	}
	if problems != nil {
		return nil, problems
	}
	for _, file := range files {
		is := func(p pluginlock.Plugin) bool { return p.Path == file.Name }
		if file.Executable && !slices.ContainsFunc(a.Plugins, is) {
			return nil, fmt.Errorf("file %s did not say what it provides", file.Name)
		}
	}
	slices.SortFunc(a.Plugins, func(a, b pluginlock.Plugin) int { return strings.Compare(a.Path, b.Path) })
	return a.Plugins, nil
}
