package policy

// Report is how all policies do, in a server that has so many places for backups.
func (p *Policies) Report(concurrentBackups int) *Report {
	return &Report{ConcurrentBackups: concurrentBackups, Policies: p.Status()}
}
