package policy

import "github.com/cleat-dev/cleat/server/cli/status/serverreport"

// Report is how all policies do, in a server that has so many places for backups.
func (p *Policies) Report(concurrentBackups int) *serverreport.PolicyReport {
	return &serverreport.PolicyReport{ConcurrentBackups: concurrentBackups, Policies: p.Status()}
}
