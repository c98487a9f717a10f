package pluginreport

import (
	"context"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Source makes reports from a host and its settings.
type Source struct {
	Host      *pluginhost.Host
	Directory string           // of the plugins; empty for none
	Lock      *pluginlock.Lock // nil for none
	LockPath  string           // of Lock
	Order     []string
	Policies  map[string][]string // the plugins that decide, by kind
	Log       hclog.Logger        // for plugins that are asked for details
}

// Report returns the report of all plugins.
func (s Source) Report() *serverreport.PluginReport { return s.report(s.Host.Entries()) }

func (s Source) report(entries []pluginhost.Entry) *serverreport.PluginReport {
	r := &serverreport.PluginReport{Directory: s.Directory, Order: s.Order, Plugins: Plugins(entries, s.Policies)}
	if absolute, err := filepath.Abs(s.Directory); err == nil && s.Directory != "" {
		r.Directory = absolute
	}
	if s.Lock != nil {
		r.Lock = s.LockPath
	}
	return r
}

// Detailed returns the report of the plugins that text refers to (see PluginReport.Matches) with their Details. It asks
// actions in use which items they apply to, which starts their processes unless they run. An error becomes the Problem
// of the plugin.
func (s Source) Detailed(ctx context.Context, text string) *serverreport.PluginReport {
	entries := s.Host.Entries()
	r := s.report(entries)
	environment := s.Host.Environment()
	r.Environment, r.Withheld = string(environment.Rule), environment.Withheld
	session := s.Host.Session("", s.Log)
	defer session.Close()
	appliesTo := actions(session, r.Plugins)
	for i := range r.Plugins {
		p := &r.Plugins[i]
		if !r.Matches(p, text) {
			continue
		}
		p.Details = &serverreport.Details{
			ConfigSchema:     entries[i].ConfigSchema,
			OperationTimeout: declared(entries[i].OperationTimeout), StallTimeout: declared(entries[i].StallTimeout),
			Roles: roles(entries[i].Roles),
		}
		s.addSum(r, p)
		if ask := appliesTo[i]; ask != nil {
			selector, err := ask(ctx)
			if err != nil {
				addProblem(p, err)
				continue
			}
			p.AppliesTo = (*serverreport.Selector)(&selector)
		}
	}
	return r.Only(text)
}

// declared returns a time as text, "" for none.
func declared(limit time.Duration) string {
	if limit == 0 {
		return ""
	}
	return limit.String()
}

// addSum adds the sum of the file and whether the lock contains it.
func (s Source) addSum(r *serverreport.PluginReport, p *serverreport.Plugin) {
	if p.BuiltIn || p.File == "" {
		return
	}
	sum, err := s.Host.Sum(p.File)
	if err != nil {
		addProblem(p, err)
		return
	}
	p.SHA256 = sum
	if relative, below := r.Relative(p.File); below && s.Lock != nil {
		p.Locked = s.Lock.Check(relative, sum) == nil
	}
}

func addProblem(p *serverreport.Plugin, err error) {
	if p.Problem != "" {
		p.Problem += "; "
	}
	p.Problem += err.Error()
}

// roles returns the roles of a plugin as text.
func roles(all []framework.Role) (text []string) {
	for _, role := range all {
		text = append(text, string(role))
	}
	return text
}
