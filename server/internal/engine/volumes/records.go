package volumes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

// OwnerLabel of a ConfigMap with records of snapshots is the UID of the Backup.
const OwnerLabel = "cleat.dev/snapshot-of"

const (
	recordKey      = "record"
	recordProofKey = "recordProof"
	idKey          = "snapshotID"
	idProofKey     = "snapshotIDProof"
	// requestTimeout bounds one request, whose connection may be broken.
	requestTimeout = 30 * time.Second
)

// Record is the durable note of a snapshot: that it is about to be requested and, once that is known, its id.
type Record struct {
	Backup          types.NamespacedName
	StorageLocation string // of the backup
	Snapshot        Snapshot
	CSI             bool `json:",omitempty"` // it stands for all CSI snapshots of the backup, which are found by its UID

	configMap string
	records   *Records
}

// Records keeps the notes in ConfigMaps of the server's namespace, one for each snapshot. It is safe for concurrent
// use.
type Records struct {
	client    client.Client
	live      client.Reader
	keys      *signing.Keys
	namespace string
	log       hclog.Logger
}

// NewRecords returns the records in a namespace, which are signed with the key: what they name is deleted. live reads
// from the API server, not from a cache.
func NewRecords(c client.Client, live client.Reader, namespace string, keys *signing.Keys, log hclog.Logger) *Records {
	return &Records{client: c, live: live, namespace: namespace, keys: keys, log: log}
}

// Begin records that a snapshot of a backup is about to be requested. After an error it must not be.
func (r *Records) Begin(ctx context.Context, b *velerov1.Backup, s *Snapshot) (*Record, error) {
	record := &Record{
		Backup: client.ObjectKeyFromObject(b), StorageLocation: b.Spec.StorageLocation, Snapshot: *s,
		configMap: "cleat-snapshot-" + uuid.NewString(), records: r,
	}
	return record, r.create(ctx, b, record)
}

func (r *Records) create(ctx context.Context, b *velerov1.Backup, record *Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode the record of a snapshot: %w", err)
	}
	key, err := r.keys.Get(ctx)
	if err != nil {
		return fmt.Errorf("sign the record of a snapshot: %w", err)
	}
	return r.retry(ctx, "record a snapshot before it is taken", func(ctx context.Context) error {
		err := r.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: record.configMap, Labels: map[string]string{
				OwnerLabel: string(b.UID), velerov1.ExcludeFromBackupLabel: "true",
			}},
			Data: map[string]string{recordKey: string(text), recordProofKey: key.Sign("snapshot", record.configMap,
				string(b.UID), string(text))},
		})
		if apierrors.IsAlreadyExists(err) { // by a request whose reply was lost, or an attempt before
			return nil
		}
		return err
	})
}

// BeginCSI records that CSI snapshots of a backup are about to be taken. After an error none must be.
func (r *Records) BeginCSI(ctx context.Context, b *velerov1.Backup) error {
	return r.create(ctx, b, &Record{
		Backup: client.ObjectKeyFromObject(b), StorageLocation: b.Spec.StorageLocation, CSI: true,
		configMap: "cleat-csi-snapshots-" + string(b.UID), records: r,
	})
}

// Taken records the id of the snapshot.
func (r *Record) Taken(ctx context.Context, id string) error {
	key, err := r.records.keys.Get(ctx)
	if err != nil {
		return fmt.Errorf("sign the id of a snapshot: %w", err)
	}
	patch, err := json.Marshal(
		map[string]any{"data": map[string]string{idKey: id, idProofKey: key.Sign("snapshot id", r.configMap, id)}},
	)
	if err != nil {
		return fmt.Errorf("encode the id of a snapshot: %w", err)
	}
	return r.records.retry(ctx, "record the id of a snapshot", func(ctx context.Context) error {
		return r.records.client.Patch(ctx, r.object(), client.RawPatch(types.MergePatchType, patch))
	})
}

// Drop deletes the record: there is no such snapshot, or the backup has it.
func (r *Record) Drop(ctx context.Context) error {
	return r.records.retry(ctx, "delete the record of a snapshot", func(ctx context.Context) error {
		return client.IgnoreNotFound(r.records.client.Delete(ctx, r.object()))
	})
}

func (r *Record) object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.records.namespace, Name: r.configMap}}
}

// Of returns the records of the backup with a UID. What cannot be read is an error of its own, beside the others.
func (r *Records) Of(ctx context.Context, backup types.UID) (found []*Record, damaged []error, err error) {
	var list corev1.ConfigMapList
	err = r.retry(ctx, "list the records of snapshots", func(ctx context.Context) error {
		return r.live.List(ctx, &list, client.InNamespace(r.namespace), client.MatchingLabels{OwnerLabel: string(backup)})
	})
	if err != nil || len(list.Items) == 0 {
		return nil, nil, err
	}
	key, err := r.keys.Get(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("verify the records of snapshots: %w", err)
	}
	for i := range list.Items {
		cm := &list.Items[i]
		text, id := cm.Data[recordKey], cm.Data[idKey]
		if !key.Proves(cm.Data[recordProofKey], "snapshot", cm.Name, string(backup), text) ||
			id != "" && !key.Proves(cm.Data[idProofKey], "snapshot id", cm.Name, id) {
			damaged = append(damaged, fmt.Errorf("ConfigMap %s/%s, the record of a snapshot, has no proof that this server "+
				"has written it", r.namespace, cm.Name))
			continue
		}
		record := &Record{configMap: cm.Name, records: r}
		if err := json.Unmarshal([]byte(text), record); err != nil {
			damaged = append(damaged, fmt.Errorf("ConfigMap %s/%s, the record of a snapshot: %w", r.namespace, cm.Name, err))
			continue
		}
		record.Snapshot.Status.ProviderSnapshotID = id
		found = append(found, record)
	}
	return found, damaged, err
}

// retry makes a request again until it succeeds, fails for good, or ctx ends.
func (r *Records) retry(ctx context.Context, what string, request func(context.Context) error) error {
	backoff := kubeapi.Backoff()
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		err := request(limited)
		overdue := limited.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || !overdue && !kubeapi.Transient(err):
			return fmt.Errorf("%s: %w", what, err)
		case attempt == 1:
			r.log.Warn("the API server did not carry out a request, trying again", "request", what, "error", err)
		}
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
