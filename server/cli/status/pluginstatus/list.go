package pluginstatus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// List is the document of "plugin get" and "plugin info".
type List struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Directory  string                `json:"directory,omitempty"`
	Lock       string                `json:"lock,omitempty"`
	Order      []string              `json:"order,omitempty"`
	Items      []serverreport.Plugin `json:"items"`
	// Policies are the policies of the running server; absent for a directory.
	Policies []serverreport.Policy `json:"policies,omitempty"`
	// Configured is what the plugins were configured with; nil in "plugin get" and for a file.
	Configured *Configured `json:"configured,omitempty"`
}

// NewList returns the list of the given plugins of a report.
func NewList(r *serverreport.PluginReport, plugins []serverreport.Plugin) List {
	return List{APIVersion: status.APIVersion, Kind: "PluginList", Directory: r.Directory, Lock: r.Lock, Order: r.Order,
		Items: plugins}
}

// Select returns the plugins that names refer to, or all without names. A kind that is not empty restricts them.
func Select(r *serverreport.PluginReport, names []string, kind string) ([]serverreport.Plugin, error) {
	if kind != "" && !knownKind(r, kind) {
		return nil, fmt.Errorf("--kind %q: there is no such kind; there are: %s", kind, strings.Join(kindNames(r), ", "))
	}
	selected := []serverreport.Plugin{}
	found := map[string]bool{}
	for i := range r.Plugins {
		p := &r.Plugins[i]
		if kind != "" && !ofKind(p, kind) {
			continue
		}
		wanted := len(names) == 0
		for _, name := range names {
			if r.Matches(p, name) {
				wanted, found[name] = true, true
			}
		}
		if wanted {
			selected = append(selected, *p)
		}
	}
	var errs []error
	for _, name := range names {
		if !found[name] {
			errs = append(errs, noPlugin(r, name, kind))
		}
	}
	return selected, errors.Join(errs...)
}

// noPlugin returns the error about a name that refers to no plugin. It lists the names that do.
func noPlugin(r *serverreport.PluginReport, name, kind string) error {
	what := "plugin"
	if kind != "" {
		what += " of the kind " + kind
	}
	if names := r.Names(); len(names) > 0 {
		slices.Sort(names)
		return fmt.Errorf("there is no %s %q; there are: %s", what, name, layout.OneLine(strings.Join(names, ", ")))
	}
	return fmt.Errorf("there is no %s %q; there are none at all", what, name)
}

func ofKind(p *serverreport.Plugin, kind string) bool {
	return p.Kind != "" && (strings.EqualFold(p.Kind, kind) || strings.EqualFold(hostapi.WireKind(p.Kind, p.Version),
		kind))
}

func knownKind(r *serverreport.PluginReport, kind string) bool {
	for _, known := range kinds.All() {
		if strings.EqualFold(known.Kind, kind) || strings.EqualFold(known.Wire, kind) {
			return true
		}
	}
	return slices.ContainsFunc(r.Plugins, func(p serverreport.Plugin) bool { return ofKind(&p, kind) })
}

// kindNames returns the kinds that this program or the server knows, sorted.
func kindNames(r *serverreport.PluginReport) []string {
	var names []string
	for _, known := range kinds.All() {
		names = append(names, known.Kind)
	}
	for _, p := range r.Plugins {
		if p.Kind != "" {
			names = append(names, layout.OneLine(p.Kind))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CompareForList orders by kind and name, the newest version first, and files without plugins last.
func CompareForList(a, b serverreport.Plugin) int {
	if (a.Kind == "") != (b.Kind == "") {
		if a.Kind == "" {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(b.Version, a.Version),
		cmp.Compare(a.File, b.File))
}

// Table returns the table of "plugin get".
func Table(plugins []serverreport.Plugin, wide bool) layout.Table {
	t := layout.Table{Head: []string{"NAME", "KIND", "VERSION", "STATUS", "FROM"}}
	if wide {
		t.Head = append(t.Head, "PLUGIN", "FRAMEWORK", "CALLS", "ERRORS", "PID", "RESTARTS", "MEMORY", "WHY")
	}
	for i := range plugins {
		p := &plugins[i]
		row := []string{layout.OneLine(layout.OrNone(p.Name)), layout.OneLine(layout.OrNone(p.Kind)),
			layout.NumberOrNone(p.Version), statusText(p.Status), layout.OneLine(fromText(p))}
		if wide {
			pid, restarts, memory := "", "", ""
			if all := p.Processes(); len(all) > 0 {
				pid, restarts, memory = processesText(all)
			}
			row = append(row, layout.OrNone(layout.OneLine(p.PluginVersion)), layout.OrNone(layout.OneLine(p.FrameworkVersion)),
				callsText(p, p.Calls), callsText(p, p.Errors), layout.OrNone(pid), layout.OrNone(restarts),
				layout.OrNone(memory), why(p))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// callsText returns a number of calls, which a plugin that is not called does not have.
func callsText(p *serverreport.Plugin, number int64) string {
	if !p.Callable() {
		return "<none>"
	}
	return strconv.FormatInt(number, 10)
}

// processesText returns the ids of the processes, the sum of their restarts and the sum of their memory.
func processesText(all []serverreport.Process) (pids, restarts, memory string) {
	var ids []string
	var sum serverreport.Process
	for _, p := range all {
		if p.PID != 0 {
			ids = append(ids, strconv.Itoa(p.PID))
		}
		sum.Restarts += p.Restarts
		sum.ResidentBytes += p.ResidentBytes
	}
	return strings.Join(ids, ","), strconv.Itoa(sum.Restarts), layout.Mebibytes(sum.ResidentBytes)
}

// why returns the reason for a cell. The reason of a quarantined plugin is printed below the table, where it has room.
func why(p *serverreport.Plugin) string {
	reason := p.Reason
	if p.Status == serverreport.Quarantined {
		reason = "see below"
	}
	if p.Note != "" {
		reason = strings.TrimPrefix(reason+"; "+p.Note, "; ")
	}
	return layout.OneLine(reason)
}

// PrintQuarantined writes the reasons of quarantined plugins, if there are any.
func PrintQuarantined(d *layout.Description, plugins []serverreport.Plugin) {
	bad := slices.DeleteFunc(slices.Clone(plugins),
		func(p serverreport.Plugin) bool { return p.Status != serverreport.Quarantined })
	if len(bad) == 0 {
		return
	}
	d.Gap()
	d.Section("Quarantined", func() {
		for i := range bad {
			d.Section(layout.OneLine(subject(&bad[i])), func() { d.Text(bad[i].Reason) })
		}
	})
}

// subject names the quarantined file, or the quarantined plugin in it.
func subject(p *serverreport.Plugin) string {
	if p.Name == "" && p.Kind == "" {
		return fromText(p)
	}
	return fmt.Sprintf("%s %s of %s", wireKind(p), p.Name, fromText(p))
}

func statusText(status serverreport.PluginStatus) string {
	switch status {
	case serverreport.InUse:
		return "in use"
	case serverreport.Available:
		return "available"
	case serverreport.NotUsed:
		return "not used"
	case serverreport.Quarantined:
		return "quarantined"
	default:
		return "<unknown>"
	}
}

func fromText(p *serverreport.Plugin) string {
	if p.BuiltIn {
		return "built-in"
	}
	return cmp.Or(layout.Printable(p.File), "<unknown>")
}

// wireKind returns kind and version as a plugin lists them.
func wireKind(p *serverreport.Plugin) string { return hostapi.WireKind(p.Kind, p.Version) }
