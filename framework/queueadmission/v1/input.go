package v1

import (
	"encoding/json"
	"fmt"
	"time"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// DecideInput is the state of the queue at one moment. The policy owns it.
type DecideInput struct {
	// Now is when that moment was. Ages are counted from here, never from the clock.
	Now time.Time
	// Limit is how many backups may be running and ready at once, at least 1. More than that are running or ready
	// when the limit was lowered.
	Limit int
	// Running are the backups in phase InProgress, the oldest first.
	Running []Backup
	// Ready are the backups that were admitted and do not run yet (phase ReadyToStart), the oldest first.
	Ready []Backup
	// Operating are the backups that have ended their runs and wait for asynchronous operations of plugins, the oldest
	// first. Their Namespaces are those that the operations work on. They count nothing towards the limit.
	Operating []Backup
	// Restoring are the restores that run, the oldest first, described as backups of the objects that they write: the
	// namespaces that they restore into, and, in their Spec, resources. Their names begin with "restores/". They count
	// nothing towards the limit.
	Restoring []Backup
	// Queued are the backups that wait, in the order of the queue; at least one.
	Queued []Backup
	// NamespaceLabels are the labels of the namespaces of all these, by name; those without labels, and those that do not
	// exist, have none.
	NamespaceLabels map[string]map[string]string
}

// Free returns how many backups may be admitted, 0 when there are too many already.
func (i *DecideInput) Free() int {
	return max(0, i.Limit-len(i.Running)-len(i.Ready))
}

// Backup describes one backup for a policy.
type Backup struct {
	// Name is unique in the input.
	Name string
	// Namespaces are those that the backup includes, globs resolved, sorted. Those that it names and that do not exist
	// yet are among them.
	Namespaces []string
	// AllNamespaces is set when the backup includes all namespaces, also future ones. Namespaces are then the present
	// ones without the excluded ones.
	AllNamespaces bool
	// ClusterScope is which cluster-scoped objects the backup includes.
	ClusterScope ClusterScope
	// Labels of the Backup; velero.io/schedule-name names the Schedule that made it.
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

// DecodeSpec decodes Spec. There may be thousands of backups in an input, so a policy decodes only those it has to.
func (b *Backup) DecodeSpec() (*velerov1.BackupSpec, error) {
	spec := &velerov1.BackupSpec{}
	if err := json.Unmarshal(b.Spec, spec); err != nil {
		return nil, fmt.Errorf("decode the spec of backup %s: %w", b.Name, err)
	}
	return spec, nil
}

// ClusterScope is which cluster-scoped objects a backup includes.
type ClusterScope string

const (
	// ClusterScopeNone includes none.
	ClusterScopeNone ClusterScope = "None"
	// ClusterScopeRelated includes what belongs to objects in its namespaces, as a PersistentVolume belongs to its
	// claim.
	ClusterScopeRelated ClusterScope = "Related"
	// ClusterScopeAll includes all that its filters include.
	ClusterScopeAll ClusterScope = "All"
)
