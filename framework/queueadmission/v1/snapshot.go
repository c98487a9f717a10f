package v1

import (
	"encoding/json"
	"fmt"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Snapshot is all there is to know about the queue at one moment. The policy owns it.
type Snapshot struct {
	// Config is what the user configured for the policy: JSON of an object that keeps to its schema. See
	// framework.DecodeConfig.
	Config []byte
	// Now is when the snapshot was taken. Ages are counted from here, never from the clock.
	Now time.Time
	// Limit is how many backups may be running and ready at once, at least 1. There may be more than that
	// when it was lowered.
	Limit int
	// Running are the backups in phase InProgress, the oldest first.
	Running []Backup
	// Ready are the backups that were admitted and do not run yet (phase ReadyToStart), the oldest first.
	Ready []Backup
	// Queued are the backups that wait, in the queue's order; at least one.
	Queued []Backup
}

// Free is how many backups may be admitted, 0 when there are too many already.
func (s *Snapshot) Free() int {
	return max(0, s.Limit-len(s.Running)-len(s.Ready))
}

// Backup is what a policy may know of one backup.
type Backup struct {
	// Name is unique in the snapshot.
	Name string
	// Namespaces are those that the backup takes objects from, globs resolved, sorted. Those that it names and
	// that do not exist yet are among them.
	Namespaces []string
	// AllNamespaces tells that the backup takes whatever namespaces there are, also those to come. Namespaces are
	// then those that there are now, without the excluded ones.
	AllNamespaces bool
	// ClusterScope is how much the backup takes of what belongs to no namespace.
	ClusterScope ClusterScope
	// Labels of the Backup; velero.io/schedule-name has the Schedule that made it.
	Labels map[string]string
	// Annotations of the Backup.
	Annotations map[string]string
	// Created is when the Backup was made.
	Created time.Time
	// Started is when the backup began to run; zero when it has not.
	Started time.Time
	// Spec is JSON of the Backup's spec, as the user wrote it. See DecodeSpec.
	Spec []byte
}

// DecodeSpec decodes Spec. There may be thousands of backups in a snapshot, so a policy decodes those it has to.
func (b *Backup) DecodeSpec() (*velerov1.BackupSpec, error) {
	spec := &velerov1.BackupSpec{}
	if err := json.Unmarshal(b.Spec, spec); err != nil {
		return nil, fmt.Errorf("decode the spec of backup %s: %w", b.Name, err)
	}
	return spec, nil
}

// ClusterScope is how much of what belongs to no namespace a backup takes.
type ClusterScope string

const (
	// ClusterScopeNone is nothing.
	ClusterScopeNone ClusterScope = "None"
	// ClusterScopeRelated is what belongs to objects in its namespaces, as a PersistentVolume belongs to its
	// claim.
	ClusterScopeRelated ClusterScope = "Related"
	// ClusterScopeAll is all that its filters let through.
	ClusterScopeAll ClusterScope = "All"
)
