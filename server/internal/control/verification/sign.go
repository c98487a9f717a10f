package verification

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// signTimeout bounds the wait for a key: a backup without a signature is better than none.
const signTimeout = 20 * time.Second

// Signer makes the checksums of backups. It is safe for concurrent use.
type Signer struct {
	Keys   *Keys
	Events events.EventRecorder
	Log    hclog.Logger
	Now    func() time.Time

	mu      sync.Mutex
	cluster string // identity, once it is known
}

// Sign stores the checksums of a backup whose other files are final, and signs them. files has their sums, and metadata
// is the velero-backup.json that is stored next. If the key cannot be used, the backup is unsigned, and an event says
// so.
func (s *Signer) Sign(
	ctx context.Context, objects *store.Store, b *velerov1.Backup, files store.Tally, metadata []byte,
) error {
	d := &trust.Document{
		Format: trust.Version,
		Backup: trust.Backup{
			Name: b.Name, Namespace: b.Namespace, UID: string(b.UID), Started: moment(b.Status.StartTimestamp),
			Completed: moment(b.Status.CompletionTimestamp), Expiration: moment(b.Status.Expiration),
		},
		Signed:  s.Now().UTC().Truncate(time.Second),
		Cluster: s.identity(ctx),
	}
	own := []string{b.Name + "-" + store.ChecksumsFile, b.Name + "-" + store.SignatureFile, store.MetadataFile}
	for name, sum := range files {
		isFile := store.FileName(b.Name, name) != "" // an older server has noted kinds instead
		if !isFile || slices.Contains(own, name) {
			continue
		}
		if sum.Size < 0 {
			found, err := objects.SumOf(ctx, b.Name, name)
			if err != nil {
				return err
			}
			sum.Size = found.Size
		}
		d.Files = append(d.Files, trust.File{Name: name, Size: sum.Size, SHA256: sum.SHA256})
	}
	sum := store.MetadataTally(metadata)[store.MetadataFile]
	d.Files = append(d.Files, trust.File{Name: store.MetadataFile, Size: sum.Size, SHA256: sum.SHA256})
	var err error
	if d.Volumes, err = volumesOf(ctx, objects, b.Name, files); err != nil {
		return err
	}
	checksums, err := d.Encode()
	if err != nil {
		return err
	}
	return objects.PutChecksums(ctx, b.Name, checksums, s.signed(ctx, b, "the backup", checksums, (*trust.Signer).Sign))
}

// Report returns the file of the report of a rehearsal of a backup: signed, if there is a key that can be used.
func (s *Signer) Report(ctx context.Context, b *velerov1.Backup, report []byte) []byte {
	if signed := s.signed(ctx, b, "the report of a rehearsal", report, (*trust.Signer).SignReport); signed != nil {
		return signed
	}
	return report
}

// signed returns what sign makes of something that concerns a backup; nil without a key that can be used.
func (s *Signer) signed(
	ctx context.Context, b *velerov1.Backup, what string, content []byte,
	sign func(*trust.Signer, context.Context, []byte) ([]byte, error),
) []byte {
	if !s.Keys.Signs() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	signer, err := s.Keys.Signer(ctx)
	if err == nil {
		var signature []byte
		if signature, err = sign(signer, ctx, content); err == nil {
			return signature
		}
	}
	s.Log.Error(what+" is not signed", "backup", b.Name, "error", err)
	if s.Events != nil {
		s.Events.Eventf(b, nil, corev1.EventTypeWarning, "NotSigned", "Sign", "%s is not signed: %v", what, err)
	}
	return nil
}

// identity returns the UID of the namespace kube-system, which is used as that of the cluster.
func (s *Signer) identity(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == "" {
		system := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
		if err := s.Keys.Live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err == nil {
			s.cluster = string(system.UID)
		}
	}
	return s.cluster
}

func moment(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// volumesOf reads the snapshots of the volumes of a backup from its files, of those that files has.
func volumesOf(
	ctx context.Context, objects *store.Store, backup string, files store.Tally,
) (all []trust.Volume, err error) {
	has := func(suffix string) bool {
		_, ok := files[backup+"-"+suffix]
		return ok || files == nil
	}
	if has("volumesnapshots.json.gz") {
		native, err := store.DecodeList[[]volumes.Snapshot](ctx, objects, velerov1.DownloadTargetKindBackupVolumeSnapshots,
			backup)
		if err != nil {
			return nil, err
		}
		for _, s := range native {
			if s.Status.ProviderSnapshotID != "" {
				all = append(all, trust.Volume{Kind: trust.Native, Of: "volume " + s.Spec.PersistentVolumeName,
					Snapshot: s.Status.ProviderSnapshotID, By: s.Spec.Location})
			}
		}
	}
	if has("volumeinfo.json.gz") {
		infos, err := store.DecodeList[[]volumes.VolumeInfo](ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos,
			backup)
		if err != nil {
			return nil, err
		}
		for i := range infos {
			v := &infos[i]
			claim := "claim " + v.PVCNamespace + "/" + v.PVCName
			switch moved := v.DataMovement; {
			case v.SnapshotDataMoved && moved != nil && moved.SnapshotHandle != "":
				all = append(all, trust.Volume{Kind: trust.Repository, Of: claim, Snapshot: moved.SnapshotHandle,
					By: velerov1.DataMoverFor(moved.DataMover, velerov1.DefaultUploader), Namespace: v.PVCNamespace})
			case v.BackupMethod == volumes.CSI && v.CSI != nil && v.CSI.SnapshotHandle != "":
				all = append(all, trust.Volume{Kind: trust.CSI, Of: claim, Snapshot: v.CSI.SnapshotHandle, By: v.CSI.Driver})
			}
		}
	}
	if has("podvolumebackups.json.gz") {
		for load, err := range store.PodVolumeBackups[velerov1.PodVolumeBackup](ctx, objects, backup) {
			if err != nil {
				return nil, err
			}
			if id := load.Status.SnapshotID; id != "" {
				all = append(all, trust.Volume{Kind: trust.Repository, Snapshot: id, By: velerov1.MoverOf(load.Spec.Engine()),
					Of:        "volume " + load.Spec.Volume + " of pod " + load.Spec.Pod.Namespace + "/" + load.Spec.Pod.Name,
					Namespace: load.Spec.Pod.Namespace})
			}
		}
	}
	slices.SortFunc(all, func(a, b trust.Volume) int { return strings.Compare(a.Of+a.Snapshot, b.Of+b.Snapshot) })
	return all, nil
}
