package pluginstatus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// PrintDetails writes everything about the plugins of a report, grouped by their files.
func PrintDetails(d *layout.Description, r *serverreport.PluginReport) {
	for i, file := range filesOf(r.Plugins) {
		if i > 0 {
			d.Gap()
		}
		var those []serverreport.Plugin
		for _, p := range r.Plugins {
			if fromText(&p) == file {
				those = append(those, p)
			}
		}
		printFile(d, r, those)
	}
}

// filesOf returns the origins of plugins, each once.
func filesOf(plugins []serverreport.Plugin) []string {
	var files []string
	for i := range plugins {
		if file := fromText(&plugins[i]); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// printFile writes everything about the plugins of one file.
func printFile(d *layout.Description, r *serverreport.PluginReport, plugins []serverreport.Plugin) {
	first := &plugins[0]
	pairs := [][2]string{
		{"From", layout.OneLine(fromText(first))},
		{"Plugin version", layout.OrNone(layout.OneLine(first.PluginVersion))},
		{"Framework version", layout.OrNone(layout.OneLine(first.FrameworkVersion))},
	}
	if first.Details != nil && first.SHA256 != "" {
		pairs = append(pairs, [2]string{"SHA-256", first.SHA256}, [2]string{"Lock", lockText(r, first)})
	}
	if p := first.Process; p != nil {
		pairs = append(pairs, [2]string{"Process", processText(p)})
	}
	if r.Environment != "" {
		pairs = append(pairs, [2]string{"Environment", layout.OneLine(environmentText(r))})
	}
	if first.Name == "" && first.Kind == "" {
		printFate(d, first, pairs...)
		return
	}
	d.Pairs(pairs...)
	slices.SortStableFunc(plugins, CompareForList)
	for i := range plugins {
		p := &plugins[i]
		d.Gap()
		d.Section(layout.OneLine(fmt.Sprintf("%s %s", p.Kind, p.Name)), func() { printOffered(d, p) })
	}
}

func processText(p *serverreport.Process) string {
	return fmt.Sprintf("pid %d, %s, memory %s", p.PID, layout.Count(p.Restarts, "restart"),
		layout.OrNone(layout.Mebibytes(p.ResidentBytes)))
}

// environmentText describes the part of a server's environment that plugins get.
func environmentText(r *serverreport.PluginReport) string {
	if len(r.Withheld) == 0 {
		return r.Environment
	}
	return r.Environment + ", withheld are " + strings.Join(r.Withheld, ", ")
}

// lockText returns the relation of a file to the lock.
func lockText(r *serverreport.PluginReport, p *serverreport.Plugin) string {
	switch {
	case r.Lock == "":
		return "<none>"
	case p.Locked:
		return "contained in " + r.Lock
	default:
		return "not contained in " + r.Lock + " with this sum"
	}
}

// printOffered writes everything about one version of one kind.
func printOffered(d *layout.Description, p *serverreport.Plugin) {
	pairs := [][2]string{{"Version", layout.NumberOrNone(p.Version)}}
	if p.Calls > 0 {
		pairs = append(pairs, [2]string{"Calls", fmt.Sprintf("%d, of which %d have failed", p.Calls, p.Errors)})
	}
	printFate(d, p, pairs...)
	if len(p.Locations) > 0 {
		d.Section("Locations", func() {
			for _, location := range p.Locations {
				process := "no process of its own"
				if !p.BuiltIn {
					process = "no process between its calls"
				}
				if location.Process != nil {
					process = processText(location.Process)
				}
				d.Pairs([2]string{layout.OneLine(location.Name), process})
			}
		})
	}
	if p.Details == nil {
		return
	}
	if p.AppliesTo != nil {
		d.Section("Applies to", func() {
			s := p.AppliesTo
			d.Pairs(
				[2]string{"Namespaces", layout.OneLine(layout.ListOr(s.IncludedNamespaces, "all"))},
				[2]string{"Excluded namespaces", layout.OneLine(layout.ListOr(s.ExcludedNamespaces, "<none>"))},
				[2]string{"Resources", layout.OneLine(layout.ListOr(s.IncludedResources, "all"))},
				[2]string{"Excluded resources", layout.OneLine(layout.ListOr(s.ExcludedResources, "<none>"))},
				[2]string{"Label selector", layout.OneLine(layout.OrNone(s.LabelSelector))},
			)
		})
	}
	if len(p.Roles) > 0 {
		d.Section("Roles", func() { d.Text(layout.OneLine(strings.Join(p.Roles, ", "))) })
	}
	if p.OperationTimeout != "" || p.StallTimeout != "" {
		d.Section("Limits of operations, unless configured", func() {
			d.Pairs(
				[2]string{"Timeout", layout.OneLine(layout.OrNone(p.OperationTimeout))},
				[2]string{"Without progress", layout.OneLine(layout.OrNone(p.StallTimeout))},
			)
		})
	}
	if len(p.ConfigSchema) > 0 {
		d.Section("Config schema", func() { d.Text(layout.IndentJSON(p.ConfigSchema)) })
	}
	if p.Problem != "" {
		d.Section("Problem", func() { d.Text(p.Problem) })
	}
}

// printFate writes the status of a plugin after other pairs: the reason, and the remedy.
func printFate(d *layout.Description, p *serverreport.Plugin, pairs ...[2]string) {
	pairs = append(pairs, [2]string{"Status", statusText(p.Status)})
	if p.Status != serverreport.Quarantined {
		pairs = append(pairs, [2]string{"Why", layout.OneLine(layout.OrNone(p.Reason))})
	}
	if p.Note != "" {
		pairs = append(pairs, [2]string{"Note", layout.OneLine(p.Note)})
	}
	d.Pairs(pairs...)
	if p.Status != serverreport.Quarantined {
		return
	}
	d.Section("Why", func() { d.Text(p.Reason) })
	d.Section("What to do", func() {
		if p.Name == "" {
			d.Line("Repair the file, replace it (copy the new file beside it, then rename it), or remove it.")
			d.Line("A running server notices the change.")
			return
		}
		d.Line("The server uses the other plugins of the file. Ask its author to repair this one; if two files offer it, " +
			"remove one.")
	})
}
