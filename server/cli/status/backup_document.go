package status

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// backupDocument is the output of "backup describe -o json". The keys, with their misspellings, and the texts for
// missing values are the same as in Velero's command. Keys that Velero does not have come after the others.
type backupDocument struct {
	Metadata         metadataDocument   `json:"metadata"`
	Phase            string             `json:"phase"`
	ResourcePolicies *referenceDocument `json:"resourcePolicies,omitempty"`
	GlobalPolicies   *referenceDocument `json:"globalVolumePolicies,omitempty"`
	ValidationErrors []string           `json:"validationErrors,omitempty"`
	Errors           map[string]any     `json:"errors,omitzero"` // nil for a backup without errors and warnings
	Warnings         map[string]any     `json:"warnings,omitzero"`
	Spec             specDocument       `json:"spec"`
	Status           statusDocument     `json:"status"`
	Deletions        *deletionsDocument `json:"deletionAttempts,omitempty"`

	QueueWait  *velerov1.QueueWait      `json:"queueWait,omitempty"`
	Starts     string                   `json:"starts,omitempty"`
	Operations *serverreport.Operations `json:"operations,omitempty"`
	Problems   []string                 `json:"problems,omitempty"`

	Verification *velerov1.Verification `json:"verification,omitempty"`
}

type metadataDocument struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type referenceDocument struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type includesDocument struct {
	Included string `json:"included"`
	Excluded string `json:"excluded"`
}

type resourcesDocument struct {
	includesDocument
	ClusterScoped string `json:"clusterScoped"`

	IncludedClusterScoped   []string `json:"includedClusterScoped,omitempty"`
	ExcludedClusterScoped   []string `json:"excludedClusterScoped,omitempty"`
	IncludedNamespaceScoped []string `json:"includedNamespaceScoped,omitempty"`
	ExcludedNamespaceScoped []string `json:"excludedNamespaceScoped,omitempty"`
}

type specDocument struct {
	Namespaces         includesDocument  `json:"namespaces"`
	Resources          resourcesDocument `json:"resources"`
	LabelSelector      string            `json:"labelSelector"`
	StorageLocation    string            `json:"storageLocation"`
	SnapshotVolumes    string            `json:"veleroNativeSnapshotPVs"`
	SnapshotMoveData   string            `json:"veleroSnapshotMoveData"`
	DataMover          string            `json:"dataMover"`
	TTL                string            `json:"TTL"`
	CSISnapshotTimeout string            `json:"CSISnapshotTimeout"`
	Hooks              *hooksDocument    `json:"hooks,omitempty"`
	OrderedResources   map[string]string `json:"orderedResources,omitempty"`

	OrLabelSelectors     []string `json:"orLabelSelectors,omitempty"`
	ItemOperationTimeout string   `json:"itemOperationTimeout"`
}

type hooksDocument struct {
	Resources map[string]resourceHooksDocument `json:"resources"` // by name
}

type resourceHooksDocument struct {
	Namespaces    includesDocument   `json:"namespaces"`
	Resources     includesDocument   `json:"resources"`
	LabelSelector string             `json:"labelSelector"`
	Pre           []execHookDocument `json:"preExecHook"`
	Post          []execHookDocument `json:"postExecHook"`
}

type execHookDocument struct {
	Container string                 `json:"container"`
	Command   string                 `json:"command"`
	OnError   velerov1.HookErrorMode `json:"onError:"` // Velero's key
	Timeout   string                 `json:"timeout"`
}

type statusDocument struct {
	FormatVersion  string              `json:"backupFormatVersion"`
	Started        string              `json:"started"`
	Completed      string              `json:"completed"`
	Expiration     string              `json:"expiration"`
	EstimatedItems *int                `json:"estimatedTotalItemsToBeBackedUp,omitempty"` // of a backup in progress
	ItemsSoFar     *int                `json:"itemsBackedUpSoFar,omitempty"`
	TotalItems     *int                `json:"totalItemsToBeBackedUp,omitempty"` // of any other
	Items          *int                `json:"itemsBackedUp,omitempty"`
	ResourceList   map[string][]string `json:"resourceList,omitempty"`
	Volumes        volumesDocument     `json:"backupVolumes"`
	HooksAttempted *int                `json:"hooksAttempted,omitempty"`
	HooksFailed    *int                `json:"hooksFailed,omitempty"`

	QueuePosition int    `json:"queuePosition,omitempty"`
	FailureReason string `json:"failureReason,omitempty"`
}

type deletionsDocument struct {
	Failed   int                `json:"failed,omitempty"`
	Requests []deletionDocument `json:"deleteBackupRequests"`
}

type deletionDocument struct {
	CreationTimestamp string   `json:"creationTimestamp"`
	Phase             string   `json:"phase"`
	Errors            []string `json:"errors,omitempty"`
}

// Document returns the description in the shape that Velero's command prints as JSON.
func (doc *BackupDescription) Document() any {
	b := doc.Backup
	out := &backupDocument{
		Metadata:         metadataDocument{b.Name, b.Namespace, b.Labels, b.Annotations},
		Phase:            PhaseOrNew(string(b.Status.Phase)),
		ValidationErrors: b.Status.ValidationErrors,
		Spec:             newSpecDocument(&b.Spec),
		Status:           doc.statusDocument(),
		QueueWait:        doc.QueueWait, Starts: doc.Starts, Operations: doc.Operations, Problems: doc.Problems,
	}
	out.Verification, _ = velerov1.VerificationOf(b) // problems has the error
	if p := b.Spec.ResourcePolicy; p != nil {
		out.ResourcePolicies = &referenceDocument{p.Kind, p.Name}
	}
	if name := b.Annotations[velerov1.GlobalVolumePoliciesAnnotation]; name != "" {
		out.GlobalPolicies = &referenceDocument{"configmap", name}
	}
	if b.Status.Errors+b.Status.Warnings > 0 {
		out.Errors, out.Warnings = messagesDocuments(&b.Status, doc.Results)
	}
	if len(doc.Deletions) > 0 {
		out.Deletions = &deletionsDocument{Failed: doc.failedDeletions()}
		for _, attempt := range doc.Deletions {
			out.Deletions.Requests = append(out.Deletions.Requests, deletionDocument{attempt.Time, attempt.Phase,
				attempt.Errors})
		}
	}
	return out
}

// messagesDocuments returns the errors and warnings, or their numbers if the file with them is missing.
func messagesDocuments(status *velerov1.BackupStatus, r *results.Results) (errors, warnings map[string]any) {
	if r == nil {
		return map[string]any{"count": status.Errors}, map[string]any{"count": status.Warnings}
	}
	document := func(count int, messages results.Result) map[string]any {
		if count == 0 {
			return map[string]any{}
		}
		all := map[string]any{"velero": append([]string{}, messages.Velero...),
			"cluster": append([]string{}, messages.Cluster...), "namespace": []string{}}
		if len(messages.Namespaces) > 0 {
			all["namespace"] = messages.Namespaces
		}
		return all
	}
	return document(status.Errors, r.Errors), document(status.Warnings, r.Warnings)
}

func newSpecDocument(spec *velerov1.BackupSpec) specDocument {
	out := specDocument{
		Namespaces: newIncludes(spec.IncludedNamespaces, spec.ExcludedNamespaces),
		Resources: resourcesDocument{
			includesDocument: newIncludes(spec.IncludedResources, spec.ExcludedResources), ClusterScoped: inOrExcluded(
				spec.IncludeClusterResources,
			),
			IncludedClusterScoped:   spec.IncludedClusterScopedResources,
			ExcludedClusterScoped:   spec.ExcludedClusterScopedResources,
			IncludedNamespaceScoped: spec.IncludedNamespaceScopedResources,
			ExcludedNamespaceScoped: spec.ExcludedNamespaceScopedResources,
		},
		LabelSelector:    formatSelector(spec.LabelSelector, nil),
		StorageLocation:  spec.StorageLocation,
		SnapshotVolumes:  layout.BoolOrAuto(spec.SnapshotVolumes),
		SnapshotMoveData: layout.BoolOrAuto(spec.SnapshotMoveData),
		DataMover:        layout.OrNone(spec.DataMover),
		TTL:              spec.TTL.Duration.String(), CSISnapshotTimeout: spec.CSISnapshotTimeout.Duration.String(),
		ItemOperationTimeout: spec.ItemOperationTimeout.Duration.String(),
		OrderedResources:     spec.OrderedResources,
	}
	for _, selector := range spec.OrLabelSelectors {
		out.OrLabelSelectors = append(out.OrLabelSelectors, metav1.FormatLabelSelector(selector))
	}
	if len(spec.Hooks.Resources) > 0 {
		out.Hooks = &hooksDocument{Resources: map[string]resourceHooksDocument{}}
	}
	for i := range spec.Hooks.Resources {
		h := &spec.Hooks.Resources[i]
		out.Hooks.Resources[h.Name] = resourceHooksDocument{
			Namespaces: newIncludes(h.IncludedNamespaces, h.ExcludedNamespaces), Resources: newIncludes(h.IncludedResources,
				h.ExcludedResources),
			LabelSelector: formatSelector(h.LabelSelector, nil), Pre: newExecHooks(h.PreHooks), Post: newExecHooks(h.PostHooks),
		}
	}
	return out
}

func newIncludes(included, excluded []string) includesDocument {
	return includesDocument{Included: layout.ListOr(included, "*"), Excluded: layout.ListOr(excluded, "<none>")}
}

// inOrExcluded returns the text of an optional boolean about something that is included or not.
func inOrExcluded(b *bool) string {
	switch {
	case b == nil:
		return "auto"
	case *b:
		return "included"
	default:
		return "excluded"
	}
}

func newExecHooks(hooks []velerov1.BackupResourceHook) []execHookDocument {
	all := []execHookDocument{}
	for _, hook := range hooks {
		if e := hook.Exec; e != nil {
			all = append(all, execHookDocument{e.Container, strings.Join(e.Command, " "), e.OnError,
				e.Timeout.Duration.String()})
		}
	}
	return all
}

func (doc *BackupDescription) statusDocument() statusDocument {
	s := &doc.Backup.Status
	out := statusDocument{
		FormatVersion: s.FormatVersion, Started: layout.TimeOr(s.StartTimestamp, "<n/a>"), Completed: layout.TimeOr(
			s.CompletionTimestamp, "<n/a>",
		),
		Expiration: layout.TimeOr(s.Expiration, "<nil>"), ResourceList: doc.Resources, Volumes: doc.volumesDocument(),
		FailureReason: s.FailureReason,
	}
	if s.Phase == velerov1.BackupPhaseQueued {
		out.QueuePosition = s.QueuePosition
	}
	if p := s.Progress; p != nil && s.Phase == velerov1.BackupPhaseInProgress {
		out.EstimatedItems, out.ItemsSoFar = &p.TotalItems, &p.ItemsBackedUp
	} else if p != nil {
		out.TotalItems, out.Items = &p.TotalItems, &p.ItemsBackedUp
	}
	if h := s.HookStatus; h != nil {
		out.HooksAttempted, out.HooksFailed = &h.HooksAttempted, &h.HooksFailed
	}
	return out
}

// volumesDocument describes how the data of volumes was backed up. Each field of Velero's is a map, or a text that says
// that there are none.
type volumesDocument struct {
	Native any `json:"nativeSnapshots"` // by persistent volume
	CSI    any `json:"csiSnapshots"`    // by claim
	// by phase: the number or, with details, the claims of each namespace
	Movements map[string]any `json:"dataUploads,omitempty"`
	Pods      any            `json:"podVolumeBackups"`
}

type nativeDocument struct {
	ID     string         `json:"snapshotID"`
	Type   string         `json:"type"`
	Zone   string         `json:"availabilityZone"`
	IOPS   string         `json:"IOPS"`
	Result volumes.Result `json:"result"`
}

// csiDocument has for each part its details, or a text that refers to --details.
type csiDocument struct {
	Snapshot any `json:"snapshot,omitempty"`
	Movement any `json:"dataMovement,omitempty"`
}

type csiSnapshotDocument struct {
	OperationID *string        `json:"operationID,omitempty"` // nil if the data was moved
	Content     string         `json:"snapshotContentName"`
	Handle      string         `json:"storageSnapshotID"`
	Size        int64          `json:"snapshotSize(bytes)"`
	Driver      string         `json:"csiDriver"`
	Result      volumes.Result `json:"result"`
}

type movementDocument struct {
	OperationID     string         `json:"operationID"`
	DataMover       string         `json:"dataMover"`
	UploaderType    string         `json:"uploaderType"`
	Result          volumes.Result `json:"result"`
	Size            int64          `json:"size,omitempty"`
	IncrementalSize int64          `json:"incrementalSize,omitempty"`
}

const (
	noneIncluded   = "<none included>"
	seeDetails     = "specify --details for more information"
	includedDetail = "included, " + seeDetails
)

func (doc *BackupDescription) volumesDocument() volumesDocument {
	native, csi := map[string]any{}, map[string]any{}
	for i := range doc.Volumes {
		switch v := &doc.Volumes[i]; v.BackupMethod {
		case volumes.Native:
			native[v.PVName] = seeDetails
			if n := v.Native; n != nil && doc.Details {
				native[v.PVName] = nativeDocument{n.SnapshotHandle, n.VolumeType, n.VolumeAZ, n.IOPS, v.Result}
			}
		case volumes.CSI:
			csi[v.PVCNamespace+"/"+v.PVCName] = newCSIDocument(v, doc.Details)
		}
	}
	return volumesDocument{
		Native: orNoneIncluded(native), CSI: orNoneIncluded(csi), Movements: loadsByPhase(asPodVolumes(doc.Movements),
			doc.Details), Pods: newPodVolumesDocument(doc.PodVolumes, doc.Details),
	}
}

func orNoneIncluded(all map[string]any) any {
	if len(all) == 0 {
		return noneIncluded
	}
	return all
}

func newCSIDocument(v *volumes.VolumeInfo, details bool) (out csiDocument) {
	if c := v.CSI; c != nil && v.PreserveLocalSnapshot {
		out.Snapshot = includedDetail
		if details {
			one := csiSnapshotDocument{nil, c.VSCName, c.SnapshotHandle, c.Size, c.Driver, v.Result}
			if !v.SnapshotDataMoved {
				one.OperationID = &c.OperationID
			}
			out.Snapshot = one
		}
	}
	if m := v.DataMovement; m != nil && v.SnapshotDataMoved {
		out.Movement = includedDetail
		if details {
			out.Movement = movementDocument{m.OperationID, moverOr(m.DataMover), m.UploaderType, v.Result, m.Size,
				m.IncrementalSize}
		}
	}
	return out
}
