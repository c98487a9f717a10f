package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/pluginreport"
)

func (a *App) pluginInfoCommand() *cobra.Command {
	var f pluginFlags
	var output string
	cmd := &cobra.Command{
		Use:   "info NAME|FILE",
		Short: "Show everything about a plugin or about a file with plugins",
		Long: "Show everything about a plugin of the running server, or with --plugin-dir of a directory: what it offers, which\n" +
			"versions are used and why, what it applies to, the schema of its config, and what is wrong with it.\n" +
			"A FILE that is there is started and looked at on its own, without a server.",
		Example: "  cleat plugin info example.io/mover\n  cleat plugin info ./mover\n  cleat plugin info --plugin-dir ./plugins example.io/mover",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := f.detailed(cmd, a, args[0])
			if err != nil {
				return err
			}
			list := pluginList{apiVersion, "PluginList", report.Directory, report.Lock, report.Order, report.Plugins, nil}
			return a.print(output, []string{"text"}, list, func() error {
				d := &description{w: a.Out}
				d.plugins(report)
				return d.err
			})
		},
	}
	f.add(cmd)
	addOutput(cmd, &output, "text")
	return cmd
}

// detailed is the report about what text means: a file that is there when no directory was named, else a plugin.
func (f *pluginFlags) detailed(cmd *cobra.Command, a *App, text string) (*pluginreport.Report, error) {
	if f.directory.path == "" && f.directory.config == "" {
		isFile, err := pluginFileAt(text)
		if err != nil {
			return nil, err
		}
		if isFile {
			return f.ofFile(cmd, a, text)
		}
	}
	all, err := f.report(cmd, a, text)
	if err != nil {
		return nil, err
	}
	if len(all.Plugins) == 0 {
		command := "cleat plugin get"
		if f.directory.path != "" {
			command += " --plugin-dir " + f.directory.path
		}
		return nil, fmt.Errorf("there is no plugin %q; %q lists those that there are", text, command)
	}
	return all, nil
}

// pluginFileAt tells whether text is the path of a plugin's file here; else it may be what a server calls a plugin, or a
// path in its directory, unless it begins with a dot.
func pluginFileAt(text string) (bool, error) {
	info, err := os.Stat(text)
	switch here := strings.HasPrefix(text, "."); {
	case err != nil && here:
		return false, err
	case err != nil, info.IsDir() && !here:
		return false, nil
	case info.IsDir():
		return false, fmt.Errorf("%s is a directory; \"cleat plugin get --plugin-dir %s\" lists its plugins", text, text)
	}
	err = checkExecutable(text)
	return err == nil, err
}

// checkExecutable says why the file at path cannot be a plugin.
func checkExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is no plugin but a directory", path)
	case info.Mode()&0o111 == 0 && filepath.Ext(path) != ".exe":
		return fmt.Errorf("%s is no plugin: it is not executable (chmod +x %s)", path, path)
	}
	return nil
}

// ofFile is the report about a file on its own.
func (f *pluginFlags) ofFile(cmd *cobra.Command, a *App, path string) (*pluginreport.Report, error) {
	if err := f.directory.complete(cmd); err != nil { // there is none, so the defaults
		return nil, err
	}
	f.directory.path, f.directory.noBuiltIns = path, true
	source, err := f.directory.openFile(cmd.Context(), a)
	if err != nil {
		return nil, err
	}
	defer source.Host.Close()
	return withoutProcesses(source.Detailed(cmd.Context(), "")), nil
}

// plugins writes all that is known of plugins, by their files.
func (d *description) plugins(r *pluginreport.Report) {
	for i, file := range filesOf(r.Plugins) {
		if i > 0 {
			d.gap()
		}
		var those []pluginreport.Plugin
		for _, p := range r.Plugins {
			if fromText(&p) == file {
				those = append(those, p)
			}
		}
		d.file(r, those)
	}
}

// filesOf are where plugins come from, each once.
func filesOf(plugins []pluginreport.Plugin) []string {
	var files []string
	for i := range plugins {
		if file := fromText(&plugins[i]); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// file writes about plugins of one file.
func (d *description) file(r *pluginreport.Report, plugins []pluginreport.Plugin) {
	first := &plugins[0]
	pairs := [][2]string{
		{"From", oneLine(fromText(first))},
		{"Plugin version", orNone(oneLine(first.PluginVersion))},
		{"Framework version", orNone(oneLine(first.FrameworkVersion))},
	}
	if first.Details != nil && first.SHA256 != "" {
		pairs = append(pairs, [2]string{"SHA-256", first.SHA256}, [2]string{"Lock", lockText(r, first)})
	}
	if p := first.Process; p != nil {
		pairs = append(pairs, [2]string{"Process", fmt.Sprintf("pid %d, %s, memory %s", p.PID, counted(p.Restarts, "restart"), orNone(mebibytes(p.ResidentBytes)))})
	}
	if first.Name == "" && first.Kind == "" {
		d.fate(first, pairs...)
		return
	}
	d.pairs(pairs...)
	slices.SortStableFunc(plugins, compareForList)
	for i := range plugins {
		p := &plugins[i]
		d.gap()
		d.section(oneLine(fmt.Sprintf("%s %s", p.Kind, p.Name)), func() { d.offered(p) })
	}
}

// lockText is what the lock says of a file.
func lockText(r *pluginreport.Report, p *pluginreport.Plugin) string {
	switch {
	case r.Lock == "":
		return "<none>"
	case p.Locked:
		return "it is in " + r.Lock
	default:
		return "it is not in " + r.Lock + " with this sum"
	}
}

// offered writes about one version of one kind.
func (d *description) offered(p *pluginreport.Plugin) {
	d.fate(p, [2]string{"Version", number(p.Version)})
	if p.Details == nil {
		return
	}
	if p.AppliesTo != nil {
		d.section("Applies to", func() {
			s := p.AppliesTo
			d.pairs(
				[2]string{"Namespaces", oneLine(listed(s.IncludedNamespaces, "all"))},
				[2]string{"Excluded namespaces", oneLine(listed(s.ExcludedNamespaces, "<none>"))},
				[2]string{"Resources", oneLine(listed(s.IncludedResources, "all"))},
				[2]string{"Excluded resources", oneLine(listed(s.ExcludedResources, "<none>"))},
				[2]string{"Label selector", oneLine(orNone(s.LabelSelector))},
			)
		})
	}
	if len(p.ConfigSchema) > 0 {
		d.section("Config schema", func() { d.lines(indented(p.ConfigSchema)) })
	}
	if p.Problem != "" {
		d.section("Problem", func() { d.lines(p.Problem) })
	}
}

// fate writes what becomes of a plugin, why, and what to do about it, after other pairs.
func (d *description) fate(p *pluginreport.Plugin, pairs ...[2]string) {
	pairs = append(pairs, [2]string{"Status", statusText(p.Status)})
	if p.Status != pluginreport.Quarantined {
		pairs = append(pairs, [2]string{"Why", oneLine(orNone(p.Reason))})
	}
	if p.Note != "" {
		pairs = append(pairs, [2]string{"Note", oneLine(p.Note)})
	}
	d.pairs(pairs...)
	if p.Status != pluginreport.Quarantined {
		return
	}
	d.section("Why", func() { d.lines(p.Reason) })
	d.section("What to do", func() {
		if p.Name == "" {
			d.line("Repair the file, replace it (copy the other beside it, then rename that), or remove it.")
			d.line("A running server looks at it again by itself.")
			return
		}
		d.line("What else the file has is used. Ask its author to repair this; where two files offer the same, remove one.")
	})
}

// indented is JSON as people read it.
func indented(data []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return string(data)
	}
	return out.String()
}
