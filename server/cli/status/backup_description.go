package status

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// BackupDescription is what "backup describe" prints: as text by Print, and as JSON what Document returns.
type BackupDescription struct {
	Backup    *velerov1.Backup
	Details   bool
	QueueWait *velerov1.QueueWait // of a Queued backup
	Starts    string              // when a Queued backup starts, as text
	Results   *results.Results
	Resources map[string][]string
	// Operations are those of details, as they were at its time.
	Operations *serverreport.Operations
	Volumes    []volumes.VolumeInfo // nil unless they were loaded
	PodVolumes []PodVolume
	Movements  []Movement
	Pace       string // of the items, while they are backed up; "" if it is not known
	Deletions  []DeletionAttempt
	Problems   []string // errors while the description was composed
}

// Print writes the document as text.
func (doc *BackupDescription) Print(w io.Writer) error {
	b := doc.Backup
	d := layout.NewDescription(w)
	printMetadata(d, &b.ObjectMeta)
	d.Gap()
	doc.printPhase(d)
	printPolicies(d, b.Spec.ResourcePolicy, b.Annotations[velerov1.GlobalVolumePoliciesAnnotation])
	d.Gap()
	printBackupSpec(d, &b.Spec)
	d.Gap()
	d.Pairs(
		[2]string{"Backup Format Version", layout.OrNone(b.Status.FormatVersion)},
		[2]string{"Started", layout.FormatTime(b.Status.StartTimestamp)},
		[2]string{"Completed", layout.FormatTime(b.Status.CompletionTimestamp)},
		[2]string{"Expiration", layout.FormatTime(b.Status.Expiration)},
	)
	if p := b.Status.Progress; p != nil {
		d.Gap()
		d.Pairs([2]string{"Total items to be backed up", strconv.Itoa(p.TotalItems)},
			[2]string{"Items backed up", strconv.Itoa(p.ItemsBackedUp)})
		if doc.Pace != "" {
			d.Pairs([2]string{"Pace", doc.Pace})
		}
		if b.Status.CompletionTimestamp != nil && b.Status.FormatVersion >= manifest.FormatVersion {
			d.Pairs([2]string{"Manifest", fmt.Sprintf("%s (cleat manifest ls %s)", layout.Count(p.ItemsBackedUp, "item"),
				b.Name)})
		}
	}
	printVerification(d, b)
	printOperations(d, BackupRun(b), doc.Operations)
	printHookStatus(d, b.Status.HookStatus)
	if doc.Resources != nil {
		d.Gap()
		printResources(d, doc.Resources)
	}
	doc.printVolumes(d)
	printLastRehearsal(d, b)
	doc.printDeletions(d)
	printProblems(d, doc.Problems)
	return d.Err()
}

// printPhase writes the phase, with the reason for waiting or for a failure.
func (doc *BackupDescription) printPhase(d *layout.Description) {
	status := &doc.Backup.Status
	lines := [][2]string{{"Phase", phaseText("backup", doc.Backup, string(status.Phase))}}
	if status.Phase == velerov1.BackupPhaseQueued {
		lines = append(lines, [2]string{"Queue position", strconv.Itoa(status.QueuePosition)})
	}
	if wait := doc.QueueWait; wait != nil {
		lines = append(lines, [2]string{"Waits because", layout.OneLine(cmp.Or(wait.Message, wait.Reason))},
			[2]string{"Waits for", layout.OrNone(layout.Abbreviate(wait.Blockers, 8, ", "))}, [2]string{"Waiting since",
				layout.FormatTime(&wait.Since)})
	}
	if doc.Starts != "" {
		lines = append(lines, [2]string{"Starts", doc.Starts})
	}
	lines = append(lines, attempts(doc.Backup)...)
	if status.FailureReason != "" {
		lines = append(lines, [2]string{"Failure reason", status.FailureReason})
	}
	lines = append(lines, holdLines(doc.Backup)...)
	if why := doc.Backup.Annotations[velerov1.DeletionFailureAnnotation]; why != "" &&
		status.Phase == velerov1.BackupPhaseDeleting {
		lines = append(lines, [2]string{"Deletion failed", layout.OneLine(why) +
			"; what is left of the backup can be restored, and deleted again"})
	}
	d.Pairs(append(lines, [2]string{"Errors", strconv.Itoa(status.Errors)},
		[2]string{"Warnings", strconv.Itoa(status.Warnings)})...)
	printWaits(d, doc.Backup)
	printValidationErrors(d, doc.Backup, status.ValidationErrors)
	printResults(d, doc.Results)
}

// holdLines returns what is known about the legal hold of a backup, and why its deletion waits.
func holdLines(b *velerov1.Backup) (lines [][2]string) {
	if value := b.Annotations[velerov1.KeptAnnotation]; value != "" {
		lines = append(lines, [2]string{"Deletion waits", velerov1.KeptText(value) + " by its bucket"})
	}
	switch asked := b.Annotations[velerov1.HoldAnnotation]; {
	case b.Annotations[velerov1.HeldAnnotation] == "true":
		lines = append(lines, [2]string{"Legal hold", "on"})
	case asked == "true":
		lines = append(lines, [2]string{"Legal hold", "requested"})
	case asked != "":
		lines = append(lines, [2]string{"Legal hold", "its end is requested"})
	}
	if why := b.Annotations[velerov1.HoldFailureAnnotation]; why != "" {
		lines = append(lines, [2]string{"Legal hold failed", layout.OneLine(why)})
	}
	return lines
}

func (doc *BackupDescription) printDeletions(d *layout.Description) {
	if len(doc.Deletions) == 0 {
		return
	}
	head := "Deletion Attempts"
	if failed := doc.failedDeletions(); failed > 0 {
		head += fmt.Sprintf(" (%d failed)", failed)
	}
	d.Gap()
	d.Section(head, func() {
		for _, attempt := range doc.Deletions {
			d.Line("%s: %s", attempt.Time, attempt.Phase)
			d.Indented(1, func() {
				for _, text := range attempt.Errors {
					d.Line("%s", text)
				}
			})
		}
	})
}

func (doc *BackupDescription) failedDeletions() (failed int) {
	for _, attempt := range doc.Deletions {
		if attempt.Phase == string(velerov1.DeleteBackupRequestPhaseProcessed) && len(attempt.Errors) > 0 {
			failed++
		}
	}
	return failed
}

// DeletionAttempt is one attempt to delete a backup.
type DeletionAttempt struct {
	Time   string
	Phase  string
	Errors []string
}

// AddDeletions adds the attempts to delete the backup.
func (doc *BackupDescription) AddDeletions(requests []velerov1.DeleteBackupRequest) {
	for i := range requests {
		r := &requests[i]
		doc.Deletions = append(doc.Deletions, DeletionAttempt{
			Time: layout.FormatTime(&r.CreationTimestamp), Phase: PhaseOrNew(string(r.Status.Phase)), Errors: r.Status.Errors,
		})
	}
}

// NewBackupDescription returns the description of b, as far as the Backup itself holds it.
func NewBackupDescription(b *velerov1.Backup) *BackupDescription {
	doc := &BackupDescription{Backup: b}
	if _, err := velerov1.VerificationOf(b); err != nil {
		doc.Problems = append(doc.Problems, err.Error())
	}
	if b.Status.Phase != velerov1.BackupPhaseQueued {
		return doc
	}
	wait, err := velerov1.QueueWaitOf(b)
	if err != nil {
		doc.Problems = append(doc.Problems, err.Error())
	}
	doc.QueueWait = wait
	return doc
}

func printBackupSpec(d *layout.Description, spec *velerov1.BackupSpec) {
	d.Section("Namespaces", func() {
		d.Pairs([2]string{"Included", layout.ListOr(spec.IncludedNamespaces, "*")},
			[2]string{"Excluded", layout.ListOr(spec.ExcludedNamespaces, "<none>")})
	})
	d.Gap()
	d.Section("Resources", func() {
		if len(spec.IncludedResources)+len(spec.ExcludedResources) > 0 || spec.IncludeClusterResources != nil {
			d.Pairs([2]string{"Included", layout.ListOr(spec.IncludedResources, "*")},
				[2]string{"Excluded", layout.ListOr(spec.ExcludedResources, "<none>")},
				[2]string{"Cluster-scoped", inOrExcluded(spec.IncludeClusterResources)})
			return
		}
		d.Pairs(
			[2]string{"Included cluster-scoped", layout.ListOr(spec.IncludedClusterScopedResources, "auto")},
			[2]string{"Excluded cluster-scoped", layout.ListOr(spec.ExcludedClusterScopedResources, "<none>")},
			[2]string{"Included namespace-scoped", layout.ListOr(spec.IncludedNamespaceScopedResources, "*")},
			[2]string{"Excluded namespace-scoped", layout.ListOr(spec.ExcludedNamespaceScopedResources, "<none>")})
	})
	d.Gap()
	lines := append(selectorLines(spec.LabelSelector, spec.OrLabelSelectors),
		[2]string{"Storage Location", layout.OrNone(spec.StorageLocation)},
		[2]string{"Velero-Native Snapshot PVs", layout.BoolOrAuto(spec.SnapshotVolumes)},
	)
	if spec.DefaultVolumesToFsBackup != nil {
		lines = append(lines, [2]string{"File System Backup (Default)", layout.BoolOrAuto(spec.DefaultVolumesToFsBackup)})
	}
	d.Pairs(append(lines,
		[2]string{"Snapshot Move Data", layout.BoolOrAuto(spec.SnapshotMoveData)},
		[2]string{"Data Mover", moverOr(spec.DataMover)},
		[2]string{"TTL", spec.TTL.Duration.String()},
		[2]string{"CSISnapshotTimeout", spec.CSISnapshotTimeout.Duration.String()},
		[2]string{"ItemOperationTimeout", spec.ItemOperationTimeout.Duration.String()},
	)...)
	if u := spec.UploaderConfig; u != nil && u.ParallelFilesUpload > 0 {
		d.Gap()
		d.Section("Uploader config",
			func() { d.Pairs([2]string{"Parallel files upload", strconv.Itoa(u.ParallelFilesUpload)}) })
	}
	printBackupHooks(d, spec.Hooks.Resources)
	if len(spec.OrderedResources) > 0 {
		d.Gap()
		d.Section("OrderedResources", func() {
			for _, resource := range slices.Sorted(maps.Keys(spec.OrderedResources)) {
				d.Line("%s: %s", resource, spec.OrderedResources[resource])
			}
		})
	}
}
