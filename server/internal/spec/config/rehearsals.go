package config

import (
	"cmp"
	"time"
)

// Rehearsals is how backups are rehearsed.
type Rehearsals struct {
	Concurrent int      `yaml:"concurrent"` // at once; 0 for the default
	Timeout    Duration `yaml:"timeout"`    // until workloads are ready; 0 for the default
	Deadline   Duration `yaml:"deadline"`   // of the restore; 0 for the default
	// Network is what the namespaces of a rehearsal may reach; empty for the default.
	Network RehearsalNetwork `yaml:"network"`
	Limits  RehearsalLimits  `yaml:"limits"`
	// PodSecurity is the level of the namespaces of a rehearsal; empty for the default.
	PodSecurity RehearsalPodSecurity `yaml:"podSecurity"`
	// CustomResources are resources, or groups with "*." before them, whose objects are written.
	CustomResources []string `yaml:"customResources"`
}

// RehearsalNetwork is what the pods of a rehearsal may reach.
type RehearsalNetwork string

// The networks of rehearsals.
const (
	NetworkNone         RehearsalNetwork = "None"
	NetworkWithin       RehearsalNetwork = "Within"       // each other
	NetworkWithinAndDNS RehearsalNetwork = "WithinAndDNS" // and the DNS of the cluster
)

// RehearsalPodSecurity is a level of Pod Security.
type RehearsalPodSecurity string

// The levels of rehearsals.
const (
	PodSecurityRestricted RehearsalPodSecurity = "Restricted"
	PodSecurityBaseline   RehearsalPodSecurity = "Baseline"
)

// RehearsalLimits are the limits of each namespace of a rehearsal. Quantities are as in Kubernetes.
type RehearsalLimits struct {
	CPU     string `yaml:"cpu"`
	Memory  string `yaml:"memory"`
	Storage string `yaml:"storage"`
	Pods    int    `yaml:"pods"`
}

// WithDefaults returns the settings with the defaults of those that the file does not set.
func (r Rehearsals) WithDefaults() Rehearsals {
	r.Concurrent = cmp.Or(r.Concurrent, 1)
	r.Timeout = cmp.Or(r.Timeout, Duration(10*time.Minute))
	r.Deadline = cmp.Or(r.Deadline, Duration(12*time.Hour))
	r.PodSecurity = cmp.Or(r.PodSecurity, PodSecurityRestricted)
	r.Network = cmp.Or(r.Network, NetworkWithinAndDNS)
	r.Limits.CPU = cmp.Or(r.Limits.CPU, "4")
	r.Limits.Memory = cmp.Or(r.Limits.Memory, "8Gi")
	r.Limits.Storage = cmp.Or(r.Limits.Storage, "100Gi")
	r.Limits.Pods = cmp.Or(r.Limits.Pods, 50)
	return r
}
