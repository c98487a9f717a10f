package cli

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

	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/pluginlock"
	"github.com/cleat-dev/cleat/server/pluginreport"
)

// verification is what "plugin verify -o json" prints.
type verification struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Lock       string         `json:"lock"`
	Right      bool           `json:"right"` // every file is
	Files      []verifiedFile `json:"files"`
}

// verifiedFile is a file with what the lock and its process say.
type verifiedFile struct {
	File   string    `json:"file"` // relative to the directory
	State  fileState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	ToDo   string    `json:"toDo,omitempty"`
}

// fileState is how a file stands to the lock.
type fileState string

const (
	fileRight       fileState = "OK"          // it has the sum of the lock, and provides what the lock says
	fileChanged     fileState = "Changed"     // it has another sum
	fileNotLocked   fileState = "NotLocked"   // the lock does not have it
	fileMissing     fileState = "Missing"     // the directory does not have it
	fileQuarantined fileState = "Quarantined" // it has the sum, but it cannot be used, or not all of it
)

// text is the state as people read it.
func (s fileState) text() string {
	switch s {
	case fileRight:
		return "ok"
	case fileNotLocked:
		return "not in the lock"
	default:
		return strings.ToLower(string(s))
	}
}

// toDo is what somebody may do about it.
func (s fileState) toDo() string {
	switch s {
	case fileRight:
		return ""
	case fileChanged:
		return `put the file of the lock back, or run "cleat plugin lock"`
	case fileNotLocked:
		return `remove the file, or run "cleat plugin lock"`
	case fileMissing:
		return `put the file there, or run "cleat plugin lock"`
	default:
		return "repair, replace or remove the file; see below"
	}
}

func (a *App) pluginVerifyCommand() *cobra.Command {
	f := directoryFlags{path: config.Defaults().PluginDir}
	var output string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the files of a plugin directory against " + pluginlock.FileName,
		Long: "Check that the plugin directory has the files of the lock and no others, that they have its sums, and that those which\n" +
			"have them provide what it says. Files with another sum are not started. The command fails when anything is wrong.",
		Example: "  cleat plugin verify --plugin-dir ./plugins",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd); err != nil {
				return err
			}
			lock, err := pluginlock.Read(f.lockPath())
			if err != nil {
				return err
			}
			source, err := f.open(cmd.Context(), a, lock)
			if err != nil {
				return err
			}
			defer source.Host.Close()
			v := verify(source)
			if err := a.print(output, []string{"table"}, v, func() error { return v.print(a) }); err != nil {
				return err
			}
			if wrong := v.wrong(); wrong > 0 {
				return fmt.Errorf("%d of %s not right", wrong, counted(len(v.Files), "file"))
			}
			return nil
		},
	}
	f.add(cmd, "directory to check")
	addOutput(cmd, &output, "table")
	return cmd
}

// verify looks at the files that a host with a lock has found, and at those of the lock.
func verify(source *pluginreport.Source) *verification {
	report, lock := source.Report(), source.Lock
	found := map[string]pluginFile{}
	paths := map[string]bool{}
	for _, file := range pluginFiles(source.Host) {
		relative, below := report.Relative(file.path)
		if !below {
			relative = file.path
		}
		found[relative], paths[relative] = file, true
	}
	for _, plugin := range lock.Plugins {
		paths[plugin.Path] = true
	}
	v := &verification{APIVersion: apiVersion, Kind: "PluginVerification", Lock: source.LockPath, Files: []verifiedFile{}}
	for _, relative := range slices.Sorted(maps.Keys(paths)) {
		file, was := found[relative]
		state, reason := verifyFile(lock, report.Directory, relative, file, was)
		v.Files = append(v.Files, verifiedFile{relative, state, reason, state.toDo()})
	}
	v.Right = v.wrong() == 0
	return v
}

// verifyFile is the state of a file, with the reason unless it is right. found tells that the host has it.
func verifyFile(lock *pluginlock.Lock, directory, relative string, file pluginFile, found bool) (fileState, string) {
	path := filepath.Join(directory, filepath.FromSlash(relative))
	info, err := os.Stat(path)
	_, locked := lock.Plugin(relative)
	switch {
	case locked && errors.Is(err, fs.ErrNotExist):
		return fileMissing, pluginlock.MissingReason
	case err != nil:
		return fileQuarantined, err.Error()
	case !found:
		return fileQuarantined, fmt.Sprintf("the server takes it for no plugin: its mode is %s, want one that is executable (chmod +x)", info.Mode())
	}
	sum, err := pluginlock.SumFile(path)
	if err != nil {
		return fileQuarantined, err.Error()
	}
	switch err := lock.Check(relative, sum); {
	case err != nil && !locked:
		return fileNotLocked, err.Error()
	case err != nil:
		return fileChanged, err.Error()
	case file.problem != "":
		return fileQuarantined, file.problem
	case len(file.partial) > 0:
		return fileQuarantined, strings.Join(file.partial, "\n")
	}
	return fileRight, ""
}

// wrong is how many files are not right.
func (v *verification) wrong() int {
	wrong := 0
	for _, file := range v.Files {
		if file.State != fileRight {
			wrong++
		}
	}
	return wrong
}

// print writes a table of all files, and below it what is wrong.
func (v *verification) print(a *App) error {
	t := table{head: []string{"FILE", "STATE", "WHAT TO DO"}}
	var problems []fileProblem
	for _, file := range v.Files {
		t.rows = append(t.rows, []string{oneLine(file.File), file.State.text(), orNone(file.ToDo)})
		if file.Reason != "" {
			problems = append(problems, fileProblem{file.File, file.Reason})
		}
	}
	if err := t.print(a.Out); err != nil {
		return err
	}
	d := &description{w: a.Out}
	if len(problems) > 0 {
		d.gap()
	}
	d.problems("Not right", problems)
	return d.err
}
