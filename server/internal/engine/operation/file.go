package operation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
)

// File is the content of the itemoperations.json.gz of a backup or restore, as Velero encodes it. The zero value
// represents a backup without operations.
type File []fileEntry

// fileEntry is one operation in a file. It has the JSON of Velero's BackupOperation or RestoreOperation.
type fileEntry struct {
	Spec   fileSpec   `json:"spec"`
	Status fileStatus `json:"status"`
}

// fileSpec has the fields of a backup or of a restore; the others are empty.
type fileSpec struct {
	BackupName         string                       `json:"backupName,omitempty"`
	BackupUID          types.UID                    `json:"backupUID,omitempty"`
	BackupItemAction   string                       `json:"backupItemAction,omitempty"`
	RestoreName        string                       `json:"restoreName,omitempty"`
	RestoreUID         types.UID                    `json:"restoreUID,omitempty"`
	RestoreItemAction  string                       `json:"restoreItemAction,omitempty"`
	ResourceIdentifier framework.ResourceIdentifier `json:"resourceIdentifier"`
	OperationID        string                       `json:"operationID"`
	// PostOperationItems points to the list of a backup. A nil list is encoded as well.
	PostOperationItems *[]framework.ResourceIdentifier `json:"postOperationItems,omitempty"`
}

type fileStatus struct {
	Phase          Phase        `json:"phase,omitempty"`
	Error          string       `json:"error,omitempty"`
	NCompleted     int64        `json:"nCompleted,omitempty"`
	NTotal         int64        `json:"nTotal,omitempty"`
	OperationUnits string       `json:"operationUnits,omitempty"`
	Description    string       `json:"description,omitempty"`
	LastLines      string       `json:"lastLines,omitempty"` // of a failed one; Velero has no such field
	Created        *metav1.Time `json:"created,omitempty"`
	Started        *metav1.Time `json:"started,omitempty"`
	Updated        *metav1.Time `json:"updated,omitempty"`
}

// NewFile returns the file with the operations of owner. Times are rounded to seconds in the encoding.
func NewFile(owner *Owner, operations []Operation) File {
	file := make(File, 0, len(operations))
	for _, o := range operations {
		lines := ""
		if o.Phase == Failed {
			lines = o.LastLines
		}
		spec := fileSpec{ResourceIdentifier: o.Item, OperationID: o.ID}
		if owner.Kind == OfRestore {
			spec.RestoreName, spec.RestoreUID, spec.RestoreItemAction = owner.Name, owner.UID, o.Action
		} else {
			spec.BackupName, spec.BackupUID, spec.BackupItemAction = owner.Name, owner.UID, o.Action
			spec.PostOperationItems = &o.PostOperationItems
		}
		file = append(file, fileEntry{Spec: spec, Status: fileStatus{
			Phase: o.Phase, Error: o.Error, NCompleted: o.NCompleted, NTotal: o.NTotal, OperationUnits: o.Units,
			Description: o.Description, LastLines: lines,
			Created: encodeTime(o.Created), Started: encodeTime(o.Started), Updated: encodeTime(o.Updated),
		}})
	}
	return file
}

// Operations returns the valid operations in the file, sorted, and an error that names the problems of the others.
// They must be operations of owner. An owner without a UID matches by its name, for example a backup that was created
// from a bucket.
func (f File) Operations(owner *Owner) ([]Operation, error) {
	var all []Operation
	var invalid []error
	seen := map[string]int{}
	for i, r := range f {
		o, err := r.operation(owner)
		if err == nil {
			key := o.Action + "\x00" + o.Item.String() + "\x00" + o.ID
			if first, twice := seen[key]; twice {
				err = fmt.Errorf("it is the same as number %d", first+1)
			}
			seen[key] = i
		}
		if err != nil {
			invalid = append(invalid, fmt.Errorf("operation %d of %d is invalid: %w", i+1, len(f), err))
			continue
		}
		all = append(all, o)
	}
	slices.SortFunc(all, Operation.Compare)
	return all, joined(invalid)
}

// shownErrors is the maximum number of errors of one kind in a message.
const shownErrors = 5

// joined is errors.Join for the first few of them.
func joined(all []error) error {
	if more := len(all) - shownErrors; more > 0 {
		all = append(slices.Clip(all[:shownErrors]), fmt.Errorf("and %d more", more))
	}
	return errors.Join(all...)
}

func (r fileEntry) operation(owner *Owner) (Operation, error) {
	name, uid, action, other := r.Spec.BackupName, r.Spec.BackupUID, r.Spec.BackupItemAction, r.Spec.RestoreItemAction
	if owner.Kind == OfRestore {
		name, uid, action, other = r.Spec.RestoreName, r.Spec.RestoreUID, r.Spec.RestoreItemAction, r.Spec.BackupItemAction
	}
	id := r.Spec.ResourceIdentifier
	switch {
	case action == "" && other != "":
		return Operation{}, fmt.Errorf("action %s is not one of a %s", other, owner.Kind)
	case action == "":
		return Operation{}, errors.New("it names no action")
	case r.Spec.OperationID == "":
		return Operation{}, fmt.Errorf("%s has no operationID", action)
	case id.Resource == "" || id.Name == "":
		return Operation{}, fmt.Errorf("%s of %s has no resource or no name of an item: %q", r.Spec.OperationID, action, id)
	case name != owner.Name, owner.UID != "" && uid != owner.UID:
		return Operation{}, fmt.Errorf("%s of %s belongs to %s %q (uid %q), want %q (uid %q)",
			r.Spec.OperationID, action, owner.Kind, name, uid, owner.Name, owner.UID)
	}
	if p := r.Status.Phase; !slices.Contains([]Phase{New, InProgress, Completed, Failed}, p) {
		return Operation{}, fmt.Errorf("%s of %s has phase %q, want %s, %s, %s or %s",
			r.Spec.OperationID, action, p, New, InProgress, Completed, Failed)
	}
	o := Operation{
		Action: action, ID: r.Spec.OperationID, Item: id, Created: decodeTime(r.Status.Created),
		Status: Status{
			Phase: r.Status.Phase, Error: r.Status.Error, NCompleted: r.Status.NCompleted, NTotal: r.Status.NTotal,
			Units: r.Status.OperationUnits, Description: r.Status.Description, LastLines: hostapi.LastLines(r.Status.LastLines),
			Started: decodeTime(r.Status.Started), Updated: decodeTime(r.Status.Updated),
		},
	}
	if r.Spec.PostOperationItems != nil {
		o.PostOperationItems = *r.Spec.PostOperationItems
	}
	return o, nil
}

func encodeTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	encoded := metav1.NewTime(t)
	return &encoded
}

func decodeTime(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
