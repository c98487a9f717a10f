package queue

import (
	"maps"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// OccupiedAnnotation of a backup that waits for asynchronous operations names the namespaces that they work on,
// separated by commas. While it waits, no backup of these namespaces starts, but it holds no slot. A backup without the
// annotation, which is not followed yet, occupies none.
const OccupiedAnnotation = "cleat.dev/occupied-namespaces"

// Occupy records the namespaces that the operations of a backup work on. "" in it stands for cluster-scoped items,
// which occupy no namespace.
func Occupy(b *velerov1.Backup, namespaces []string) {
	annotations := maps.Clone(b.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if !Occupies(b) {
		delete(annotations, OccupiedAnnotation)
	} else {
		annotations[OccupiedAnnotation] = strings.TrimPrefix(strings.Join(namespaces, ","), ",")
	}
	b.Annotations = annotations
}

// Occupies reports whether operations of a backup may work on namespaces.
func Occupies(b *velerov1.Backup) bool {
	phase := velerov1.PhaseOf(b)
	return phase == velerov1.BackupPhaseWaitingForPluginOperations ||
		phase == velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed
}

// occupied replaces the namespaces of backups by the namespaces that their operations work on, and leaves out backups
// whose operations work on none. seen are the backups as policies get them.
func occupied(seen []queueadmission.Backup, backups []*velerov1.Backup) []queueadmission.Backup {
	var occupy []queueadmission.Backup
	for i, b := range backups {
		names := strings.FieldsFunc(b.Annotations[OccupiedAnnotation], func(r rune) bool { return r == ',' })
		if len(names) > 0 {
			one := seen[i]
			one.Namespaces, one.AllNamespaces, one.ClusterScope = names, false, queueadmission.ClusterScopeNone
			occupy = append(occupy, one)
		}
	}
	return occupy
}
