package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/server/pluginlock"
	"github.com/cleat-dev/cleat/versioning"
)

// lockChanges is what "plugin lock -o json" prints.
type lockChanges struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Lock       string        `json:"lock"`
	Files      int           `json:"files"`   // in the lock
	Written    bool          `json:"written"` // false when nothing changed, and with --check
	Changes    []lockChange  `json:"changes"`
	Broken     []fileProblem `json:"broken"`  // cannot be used, so they are not in the lock
	Partial    []fileProblem `json:"partial"` // in the lock, but something in them cannot be used

	refused bool // broken files keep the lock from being written
	absent  bool // there is no lock to check
}

// lockChange is how a lock differs from the one before.
type lockChange struct {
	Change string `json:"change"` // added, changed or removed
	File   string `json:"file"`   // relative to the directory
	What   string `json:"what,omitempty"`
}

// fileProblem is what is wrong with a file.
type fileProblem struct {
	File   string `json:"file"` // relative to the directory
	Reason string `json:"reason"`
}

func (a *App) pluginLockCommand() *cobra.Command {
	f := directoryFlags{path: config.Defaults().PluginDir}
	var skipBroken, check bool
	var output string
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Write " + pluginlock.FileName + ": which plugin files a server may run, by their content",
		Long: "Start each file in the plugin directory, ask what it provides, and write that with the sum of its content into the\n" +
			"lock. A server with the lock runs these files and no others. The command says what changed against the lock that was\n" +
			"there.",
		Example: "  cleat plugin lock --plugin-dir ./plugins\n  cleat plugin lock --plugin-dir ./plugins --check",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(checkForm(output, "table"), f.complete(cmd)); err != nil {
				return err
			}
			before, err := pluginlock.Read(f.lockPath())
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w; repair the lock, or remove it to write a new one", err)
			}
			lock, changes, err := f.lockOf(cmd.Context(), a)
			if err != nil {
				return err
			}
			changes.Changes = compareLocks(before, lock)
			changes.refused = len(changes.Broken) > 0 && !skipBroken
			changes.absent = check && before == nil
			if !changes.refused && !check && (len(changes.Changes) > 0 || before == nil) {
				if err := lock.Write(f.lockPath()); err != nil {
					return err
				}
				changes.Written = true
			}
			if err := a.print(output, []string{"table"}, changes, func() error { return changes.print(a) }); err != nil {
				return err
			}
			return changes.verdict()
		},
	}
	f.add(cmd, "directory to lock")
	cmd.Flags().BoolVar(&skipBroken, "skip-broken", false, "leave out files that cannot be used instead of refusing to write")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; fail if the lock would change")
	addOutput(cmd, &output, "table")
	return cmd
}

// lockOf is the lock of the directory, and what cannot be in it. The sums are taken first; then what has them is run,
// so that the lock tells of nothing else.
func (f *directoryFlags) lockOf(ctx context.Context, a *App) (*pluginlock.Lock, *lockChanges, error) {
	c := &lockChanges{APIVersion: apiVersion, Kind: "PluginLockChanges", Lock: f.lockPath(), Broken: []fileProblem{}, Partial: []fileProblem{}}
	contents := &pluginlock.Lock{}
	err := f.visit(ctx, a, &pluginlock.Lock{}, func(host *pluginhost.Host, relative string, file pluginFile) {
		sum, err := host.Sum(file.path)
		if err != nil {
			c.Broken = append(c.Broken, fileProblem{relative, cmp.Or(file.problem, err.Error())})
			return
		}
		contents.Plugins = append(contents.Plugins, pluginlock.Plugin{Path: relative, SHA256: sum}) // whatever it provides
	})
	if err != nil {
		return nil, nil, err
	}
	contents.Sort()

	lock := &pluginlock.Lock{}
	err = f.visit(ctx, a, contents, func(_ *pluginhost.Host, relative string, file pluginFile) {
		plugin, known := contents.Plugin(relative)
		if !known {
			return // it is broken, or it came a moment ago
		}
		provides, err := lockable(file)
		if err != nil {
			c.Broken = append(c.Broken, fileProblem{relative, err.Error()})
			return
		}
		if len(file.partial) > 0 {
			c.Partial = append(c.Partial, fileProblem{relative, strings.Join(file.partial, "\n")})
		}
		plugin.Provides = provides
		lock.Plugins = append(lock.Plugins, plugin)
	})
	if err != nil {
		return nil, nil, err
	}
	lock.Sort()
	slices.SortFunc(c.Broken, func(a, b fileProblem) int { return strings.Compare(a.File, b.File) })
	c.Files = len(lock.Plugins)
	return lock, c, nil
}

// visit starts a host with a lock over the directory, and shows the files that it finds.
func (f *directoryFlags) visit(ctx context.Context, a *App, lock *pluginlock.Lock, see func(host *pluginhost.Host, relative string, file pluginFile)) error {
	source, err := f.open(ctx, a, lock)
	if err != nil {
		return err
	}
	defer source.Host.Close()
	report := source.Report()
	for _, file := range pluginFiles(source.Host) {
		relative, below := report.Relative(file.path)
		if !below {
			return fmt.Errorf("%s is not below the plugin directory %s", file.path, report.Directory)
		}
		see(source.Host, relative, file)
	}
	return nil
}

// lockable is what a lock says that a file provides; the error is why it cannot be in a lock.
func lockable(file pluginFile) ([]pluginlock.Provided, error) {
	if file.problem != "" {
		return nil, errors.New(file.problem)
	}
	provides := pluginlock.Provides(file.listed)
	for _, provided := range provides {
		if err := provided.Validate(); err != nil {
			return nil, err
		}
	}
	return provides, nil
}

// pluginFile is a file of a plugin directory.
type pluginFile struct {
	path    string
	listed  []versioning.Listed // what its process lists
	problem string              // why it cannot be used at all; empty if it can
	partial []string            // what is wrong with something in it
}

// pluginFiles are the files that a host found, in its order.
func pluginFiles(host *pluginhost.Host) []pluginFile {
	var files []pluginFile
	at := map[string]int{}
	for _, entry := range host.Entries() {
		if entry.BuiltIn {
			continue
		}
		i, seen := at[entry.Command]
		if !seen {
			i = len(files)
			at[entry.Command] = i
			files = append(files, pluginFile{path: entry.Command})
		}
		file := &files[i]
		switch {
		case entry.Name == "" && entry.Kind == "":
			file.problem = entry.Quarantined // empty for one that lists nothing
		default:
			file.listed = append(file.listed, versioning.Listed{Kind: entry.Kind, Name: entry.Name})
			if entry.Quarantined != "" {
				file.partial = append(file.partial, entry.Quarantined)
			}
		}
	}
	return files
}

// compareLocks is how a lock differs from the one before, which may be nil, by files.
func compareLocks(before, now *pluginlock.Lock) []lockChange {
	if before == nil {
		before = &pluginlock.Lock{}
	}
	changes := []lockChange{}
	for _, plugin := range now.Plugins {
		old, was := before.Plugin(plugin.Path)
		if !was {
			changes = append(changes, lockChange{"added", plugin.Path, cmp.Or(providesText("provides ", plugin.Provides, nil), "provides nothing")})
			continue
		}
		var what []string
		if old.SHA256 != plugin.SHA256 {
			what = append(what, "other content")
		}
		what = append(what, providesText("also provides ", plugin.Provides, old.Provides), providesText("no longer provides ", old.Provides, plugin.Provides))
		what = slices.DeleteFunc(what, func(text string) bool { return text == "" })
		if len(what) > 0 {
			changes = append(changes, lockChange{"changed", plugin.Path, strings.Join(what, "; ")})
		}
	}
	for _, old := range before.Plugins {
		if _, is := now.Plugin(old.Path); !is {
			changes = append(changes, lockChange{"removed", old.Path, providesText("provided ", old.Provides, nil)})
		}
	}
	slices.SortStableFunc(changes, func(a, b lockChange) int { return strings.Compare(a.File, b.File) })
	return changes
}

// providesText names what is in all and not in others, empty when there is nothing.
func providesText(verb string, all, others []pluginlock.Provided) string {
	var names []string
	for _, provided := range all {
		if !slices.Contains(others, provided) {
			names = append(names, provided.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return verb + strings.Join(names, ", ")
}

// print writes what changed, and what is broken.
func (c *lockChanges) print(a *App) error {
	d := &description{w: a.Out}
	if len(c.Changes) > 0 {
		t := table{head: []string{"CHANGE", "FILE", "WHAT"}}
		for _, change := range c.Changes {
			t.rows = append(t.rows, []string{change.Change, oneLine(change.File), orNone(oneLine(change.What))})
		}
		if err := t.print(a.Out); err != nil {
			return err
		}
		d.gap()
	}
	d.problems("Cannot be used", c.Broken)
	d.problems("Usable only in part", c.Partial)
	conclusion := ""
	switch {
	case c.Written:
		conclusion = fmt.Sprintf("Wrote %s with %s.", c.Lock, counted(c.Files, "file"))
	case len(c.Changes) == 0 && !c.refused && !c.absent:
		conclusion = fmt.Sprintf("%s is up to date: %s.", c.Lock, counted(c.Files, "file"))
	default:
		return d.err
	}
	if len(c.Broken)+len(c.Partial) > 0 {
		d.gap()
	}
	d.line("%s", conclusion)
	return d.err
}

// problems writes what is wrong with files.
func (d *description) problems(head string, all []fileProblem) {
	if len(all) == 0 {
		return
	}
	d.section(head, func() {
		for _, problem := range all {
			d.section(oneLine(problem.File), func() { d.lines(problem.Reason) })
		}
	})
}

// verdict is the error to end with.
func (c *lockChanges) verdict() error {
	switch {
	case c.refused:
		return fmt.Errorf("%s cannot be used, so it cannot be locked; repair or remove what is broken, or leave it out with --skip-broken",
			counted(len(c.Broken), "file"))
	case c.absent:
		return fmt.Errorf("there is no lock %s; write it without --check", c.Lock)
	case !c.Written && len(c.Changes) > 0:
		return fmt.Errorf("the lock %s is not that of the directory; look at what differs, and write it without --check", c.Lock)
	}
	return nil
}
