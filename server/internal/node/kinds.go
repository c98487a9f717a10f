package node

import (
	"cmp"
	"maps"
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/node/loadpod"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// kind describes one of the four custom resources of loads, and everything in which they differ.
type kind struct {
	name      string
	restore   bool // it belongs to a Restore; otherwise to a Backup
	finalizer string
	// podLabel is the key of the label of the pod that exposes the volume. Its value is the name of the load. podLabel
	// is empty if spec.pod names the pod.
	podLabel string

	object func() client.Object
	list   func() client.ObjectList
	status func(client.Object) *velerov1.LoadStatus
	clear  func(client.Object) // removes the status
	spec   func(client.Object) spec
	// place returns pointers to the fields of the status that name nodes; a kind without such a field has a nil
	// pointer.
	place func(client.Object) place
	// bind records the UID of the pod of a restore; nil for other kinds.
	bind func(client.Object, types.UID)
	// result records what a backup has stored; snapshot returns the ID.
	result   func(client.Object, *stored)
	snapshot func(client.Object) string
}

// place points to the fields of a status that name nodes.
type place struct{ node, acceptedBy *string }

// spec holds the fields that the specifications of all kinds have.
type spec struct {
	cancel   bool
	node     string // on which the load has to run; "" for any
	pod      velerov1.ObjectReference
	volume   string // of the pod
	mover    string // name of the plugin
	engine   velerov1.RepositoryType
	location string
	// repository is the namespace whose repository holds the data.
	repository string
	snapshotID string
	source     datamover.Source // of the data of a backup
	tags       map[string]string
	settings   map[string]string

	storageClass, namespace string // of the volume
	bytes                   int64
	claim                   types.NamespacedName // of the volume, unless the pod names it
	snapshot                string               // name of the VolumeSnapshot that is moved
}

// kinds returns the four kinds.
func kinds() []*kind {
	return []*kind{podVolumeBackups(), podVolumeRestores(), dataUploads(), dataDownloads()}
}

// is reports whether an object is of the kind.
func (k *kind) is(object client.Object) bool {
	return reflect.TypeOf(object) == reflect.TypeOf(k.object())
}

// as returns an object with the Go type of its kind.
func as[T any](object client.Object) *T {
	typed, _ := object.(any).(*T) // each kind gets only its own objects
	return typed
}

func podVolumeBackups() *kind {
	type t = velerov1.PodVolumeBackup
	return &kind{
		name: "PodVolumeBackup", finalizer: velerov1.PodVolumeFinalizer,
		object: func() client.Object { return new(t) },
		list:   func() client.ObjectList { return new(velerov1.PodVolumeBackupList) },
		status: func(o client.Object) *velerov1.LoadStatus { return &as[t](o).Status.LoadStatus },
		clear:  func(o client.Object) { as[t](o).Status = velerov1.PodVolumeBackupStatus{} },
		place:  func(client.Object) place { return place{} },
		spec: func(o client.Object) spec {
			s := &as[t](o).Spec
			return spec{
				cancel: s.Cancel, node: s.Node, pod: s.Pod, volume: s.Volume, mover: moverOf(s.UploaderType),
				engine:   s.UploaderType,
				location: s.BackupStorageLocation, repository: s.Pod.Namespace, tags: s.Tags, settings: s.UploaderSettings,
				namespace: s.Pod.Namespace,
				source: datamover.Source{
					Requester: datamover.PodVolume, Namespace: s.Pod.Namespace, Pod: s.Pod.Name, Volume: s.Volume,
					Claim: o.GetAnnotations()[velerov1.PVCNameAnnotation],
				},
			}
		},
		result: func(o client.Object, r *stored) {
			s := &as[t](o).Status
			s.SnapshotID, s.IncrementalBytes, s.Path = r.id, r.newBytes, r.path
		},
		snapshot: func(o client.Object) string { return as[t](o).Status.SnapshotID },
	}
}

func podVolumeRestores() *kind {
	type t = velerov1.PodVolumeRestore
	return &kind{
		name: "PodVolumeRestore", restore: true, finalizer: velerov1.PodVolumeFinalizer,
		object: func() client.Object { return new(t) },
		list:   func() client.ObjectList { return new(velerov1.PodVolumeRestoreList) },
		status: func(o client.Object) *velerov1.LoadStatus { return &as[t](o).Status.LoadStatus },
		clear:  func(o client.Object) { as[t](o).Status = velerov1.PodVolumeRestoreStatus{} },
		place:  func(o client.Object) place { return place{node: &as[t](o).Status.Node} },
		bind: func(o client.Object, uid types.UID) {
			as[t](o).Spec.Pod.UID = uid
			metav1.SetMetaDataLabel(&as[t](o).ObjectMeta, velerov1.PodUIDLabel, string(uid))
		},
		spec: func(o client.Object) spec {
			s := &as[t](o).Spec
			return spec{
				cancel: s.Cancel, pod: s.Pod, volume: s.Volume, mover: moverOf(s.UploaderType), engine: s.UploaderType,
				location: s.BackupStorageLocation, repository: s.SourceNamespace, snapshotID: s.SnapshotID,
				settings:  s.UploaderSettings,
				namespace: s.Pod.Namespace, bytes: s.SnapshotSize,
			}
		},
	}
}

func dataUploads() *kind {
	type t = velerov2alpha1.DataUpload
	return &kind{
		name: "DataUpload", finalizer: velerov1.DataUploadDownloadFinalizer, podLabel: velerov1.DataUploadLabel,
		object: func() client.Object { return new(t) },
		list:   func() client.ObjectList { return new(velerov2alpha1.DataUploadList) },
		status: func(o client.Object) *velerov1.LoadStatus { return &as[t](o).Status.LoadStatus },
		clear:  func(o client.Object) { as[t](o).Status = velerov2alpha1.DataUploadStatus{} },
		place: func(o client.Object) place {
			s := &as[t](o).Status
			return place{node: &s.Node, acceptedBy: &s.AcceptedByNode}
		},
		spec: func(o client.Object) spec {
			s := &as[t](o).Spec
			class, snapshot := "", ""
			if s.CSISnapshot != nil {
				class, snapshot = s.CSISnapshot.StorageClass, s.CSISnapshot.VolumeSnapshot
			}
			return spec{
				cancel: s.Cancel, mover: s.DataMover, location: s.BackupStorageLocation, repository: s.SourceNamespace,
				settings: s.DataMoverConfig, tags: tagsOf(o), storageClass: class, namespace: s.SourceNamespace, snapshot: snapshot,
				claim:  types.NamespacedName{Namespace: s.SourceNamespace, Name: s.SourcePVC},
				source: datamover.Source{Requester: datamover.DataUpload, Namespace: s.SourceNamespace, Claim: s.SourcePVC},
			}
		},
		result: func(o client.Object, r *stored) {
			s := &as[t](o).Status
			s.SnapshotID, s.IncrementalBytes, s.Path = r.id, r.newBytes, r.path
		},
		snapshot: func(o client.Object) string { return as[t](o).Status.SnapshotID },
	}
}

// tagsOf returns the tags of the snapshot of a DataUpload, which identify its backup. They are the tags of
// PodVolumeBackups.
func tagsOf(o client.Object) map[string]string {
	tags := map[string]string{}
	if operation := o.GetLabels()[velerov1.AsyncOperationIDLabel]; operation != "" {
		tags[velerov1.AsyncOperationIDLabel] = operation
	}
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Backup" {
		tags["backup"], tags["backup-uid"] = owner.Name, string(owner.UID)
	}
	return tags
}

func dataDownloads() *kind {
	type t = velerov2alpha1.DataDownload
	return &kind{
		name: "DataDownload", restore: true, finalizer: velerov1.DataUploadDownloadFinalizer,
		podLabel: velerov1.DataDownloadLabel,
		object:   func() client.Object { return new(t) },
		list:     func() client.ObjectList { return new(velerov2alpha1.DataDownloadList) },
		status:   func(o client.Object) *velerov1.LoadStatus { return &as[t](o).Status.LoadStatus },
		clear:    func(o client.Object) { as[t](o).Status = velerov2alpha1.DataDownloadStatus{} },
		place: func(o client.Object) place {
			s := &as[t](o).Status
			return place{node: &s.Node, acceptedBy: &s.AcceptedByNode}
		},
		spec: func(o client.Object) spec {
			s := &as[t](o).Spec
			return spec{
				cancel: s.Cancel, mover: s.DataMover, location: s.BackupStorageLocation, repository: s.SourceNamespace,
				snapshotID: s.SnapshotID, settings: s.DataMoverConfig, namespace: s.TargetVolume.Namespace, bytes: s.SnapshotSize,
				claim: types.NamespacedName{Namespace: s.TargetVolume.Namespace, Name: s.TargetVolume.PVC},
			}
		},
	}
}

// moverOf returns the data mover for an uploader, whose default is kopia; "" if there is none.
func moverOf(uploader velerov1.RepositoryType) string {
	return velerov1.MoverOf(cmp.Or(uploader, velerov1.RepositoryTypeKopia))
}

// load is a custom resource of one of the four kinds.
type load struct {
	*kind
	client.Object
	spec   spec
	status *velerov1.LoadStatus
	proof  proof
}

// newLoad returns an object as a load. Annotations add the properties of the volume that the spec omits.
func newLoad(k *kind, object client.Object) *load {
	l := &load{kind: k, Object: object, spec: k.spec(object), status: k.status(object)}
	annotations := object.GetAnnotations()
	if class := annotations[velerov1.LoadStorageClassAnnotation]; class != "" {
		l.spec.storageClass = class
	}
	if bytes, err := strconv.ParseInt(annotations[velerov1.LoadBytesAnnotation], 10, 64); err == nil && bytes > 0 {
		l.spec.bytes = bytes
	}
	return l
}

// copy returns a copy that can be changed.
func (l *load) copy() *load {
	copied, _ := l.DeepCopyObject().(client.Object)
	after := newLoad(l.kind, copied)
	after.proof = l.proof
	return after
}

// key returns the kind and the name. A load that replaces another of the same name has the same key.
func (l *load) key() string { return l.name + "/" + l.GetName() }

// phase returns the phase; empty means New. A load whose status was not written by an agent is New, too.
func (l *load) phase() velerov1.LoadPhase {
	if l.status.Phase == "" || l.proof.forged && !l.status.Phase.Terminal() {
		return velerov1.LoadPhaseNew
	}
	return l.status.Phase
}

// cancelled reports whether the load is to end early because it was cancelled or deleted.
func (l *load) cancelled() bool { return l.spec.cancel || l.GetDeletionTimestamp() != nil }

// node returns the name of the node on which the load runs, or "" if it is not known yet.
func (l *load) node() string {
	if at := l.place(l.Object).node; l.spec.node == "" && at != nil {
		return *at
	}
	return l.spec.node
}

// acceptedBy returns the node whose agent is responsible for the load until it is Prepared.
func (l *load) acceptedBy() string {
	if by := l.place(l.Object).acceptedBy; by != nil {
		return *by
	}
	return l.node()
}

// acceptedAt returns the time since which the load is Accepted. If the status does not have it, because another client
// has written the status, acceptedAt returns the time of creation.
func (l *load) acceptedAt() time.Time {
	if at := l.status.AcceptedTimestamp; at != nil {
		return at.Time
	}
	return l.GetCreationTimestamp().Time
}

// attempt returns the number of the current attempt to move the data, 1 for the first.
func (l *load) attempt() int {
	n, _ := strconv.Atoi(l.GetAnnotations()[velerov1.LoadAttemptAnnotation])
	return max(1, n)
}

// setAttempt sets the number of the attempt.
func (l *load) setAttempt(n int) {
	annotations := maps.Clone(l.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[velerov1.LoadAttemptAnnotation] = strconv.Itoa(n)
	l.SetAnnotations(annotations)
}

// interruptions returns how many attempts do not count.
func (l *load) interruptions() int {
	n, _ := strconv.Atoi(l.GetAnnotations()[velerov1.LoadInterruptionsAnnotation])
	return min(max(0, n), l.attempt()-1)
}

// next begins another attempt after one that was lost.
func (l *load) next(lost outcome) {
	interruptions := l.interruptions()
	l.setAttempt(l.attempt() + 1)
	if !lost.interrupted {
		return
	}
	annotations := maps.Clone(l.GetAnnotations())
	annotations[velerov1.LoadInterruptionsAnnotation] = strconv.Itoa(interruptions + 1)
	l.SetAnnotations(annotations)
}

// mayBeMovedAgain reports whether another attempt follows one that was lost. One that was ended from outside does not
// count: the operation of the load has a limit of time.
func (l *load) mayBeMovedAgain(lost outcome) bool {
	return lost.interrupted || l.attempt()-l.interruptions() < loadpod.Most
}

// describeAttempt returns which attempt the current one is.
func (l *load) describeAttempt() string { return loadpod.Attempt(l.attempt(), l.interruptions()) }

// owner returns the name of the Backup or Restore to which the load belongs.
func (l *load) owner() string {
	if owner := metav1.GetControllerOf(l.Object); owner != nil {
		return owner.Name
	}
	return ""
}

// compare orders loads by age.
func (l *load) compare(other *load) int {
	a, b := l.GetCreationTimestamp(), other.GetCreationTimestamp()
	if order := a.Compare(b.Time); order != 0 {
		return order
	}
	if l.key() < other.key() {
		return -1
	}
	return 1
}
