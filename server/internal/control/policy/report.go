package policy

import "github.com/cleat-dev/cleat/server/internal/report/serverreport"

// Report returns the state of all policies, for a server with a number of slots for backups.
func (p *Policies) Report(concurrentBackups int) *serverreport.PolicyReport {
	return &serverreport.PolicyReport{ConcurrentBackups: concurrentBackups, Policies: p.Status()}
}
