package cli

import (
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/server/pluginreport"
)

// plugins writes all that is known of plugins, by their files.
func printPlugins(d *description, r *pluginreport.Report) {
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
		printFile(d, r, those)
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
func printFile(d *description, r *pluginreport.Report, plugins []pluginreport.Plugin) {
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
		pairs = append(pairs, [2]string{"Process", fmt.Sprintf("pid %d, %s, memory %s", p.PID, count(p.Restarts, "restart"), orNone(mebibytes(p.ResidentBytes)))})
	}
	if first.Name == "" && first.Kind == "" {
		printFate(d, first, pairs...)
		return
	}
	d.pairs(pairs...)
	slices.SortStableFunc(plugins, compareForList)
	for i := range plugins {
		p := &plugins[i]
		d.gap()
		d.section(oneLine(fmt.Sprintf("%s %s", p.Kind, p.Name)), func() { printOffered(d, p) })
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
func printOffered(d *description, p *pluginreport.Plugin) {
	printFate(d, p, [2]string{"Version", numberOrNone(p.Version)})
	if p.Details == nil {
		return
	}
	if p.AppliesTo != nil {
		d.section("Applies to", func() {
			s := p.AppliesTo
			d.pairs(
				[2]string{"Namespaces", oneLine(listOr(s.IncludedNamespaces, "all"))},
				[2]string{"Excluded namespaces", oneLine(listOr(s.ExcludedNamespaces, "<none>"))},
				[2]string{"Resources", oneLine(listOr(s.IncludedResources, "all"))},
				[2]string{"Excluded resources", oneLine(listOr(s.ExcludedResources, "<none>"))},
				[2]string{"Label selector", oneLine(orNone(s.LabelSelector))},
			)
		})
	}
	if len(p.ConfigSchema) > 0 {
		d.section("Config schema", func() { d.text(indentJSON(p.ConfigSchema)) })
	}
	if p.Problem != "" {
		d.section("Problem", func() { d.text(p.Problem) })
	}
}

// fate writes what becomes of a plugin, why, and what to do about it, after other pairs.
func printFate(d *description, p *pluginreport.Plugin, pairs ...[2]string) {
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
	d.section("Why", func() { d.text(p.Reason) })
	d.section("What to do", func() {
		if p.Name == "" {
			d.line("Repair the file, replace it (copy the other beside it, then rename that), or remove it.")
			d.line("A running server looks at it again by itself.")
			return
		}
		d.line("What else the file has is used. Ask its author to repair this; where two files offer the same, remove one.")
	})
}
