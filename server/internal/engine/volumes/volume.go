package volumes

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// RestoreLabel of a ConfigMap with the volumes that a restore has made is the UID of the Restore.
const RestoreLabel = "cleat.dev/volume-of"

const (
	attemptKey     = "attempt"
	volumeKey      = "volumeID"
	volumeProofKey = "volumeIDProof"
)

// Volume is the durable note of a volume that a restore makes of a snapshot, from before it is requested until a
// persistent volume refers to it. So a restore that is taken up again does not make it twice.
type Volume struct {
	ID      string // "" until it is known
	Unknown bool   // an attempt before has requested the volume, and its id is not known

	configMap string
	records   *Records
}

// Volume returns the note of the volume for a persistent volume: a new one, or that of an attempt before. After an
// error the volume must not be requested.
func (r *Records) Volume(ctx context.Context, restore *velerov1.Restore, pv string, of *Snapshot) (*Volume, error) {
	attempt := uuid.NewString()
	name := "cleat-volume-" + uuid.NewSHA1(uuid.Nil, []byte(string(restore.UID)+"/"+pv)).String()
	note, proof := &Volume{configMap: name, records: r}, ""
	err := r.retry(ctx, "record a volume before it is made", func(ctx context.Context) error {
		err := r.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: r.namespace, Name: name,
				Labels: map[string]string{RestoreLabel: string(restore.UID), velerov1.ExcludeFromBackupLabel: "true"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Restore", Name: restore.Name, UID: restore.UID,
				}},
			},
			Data: map[string]string{attemptKey: attempt, "persistentVolume": pv, idKey: of.Status.ProviderSnapshotID},
		})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		var found corev1.ConfigMap // of an attempt before, or of a request whose reply was lost
		if err := r.live.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, &found); err != nil {
			return err
		}
		note.ID, proof = found.Data[volumeKey], found.Data[volumeProofKey]
		note.Unknown = note.ID == "" && found.Data[attemptKey] != attempt
		return nil
	})
	if err != nil || note.ID == "" {
		return note, err
	}
	key, err := r.keys.Again(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify the id of a volume: %w", err)
	}
	if !key.Proves(proof, "volume id", name, note.ID) {
		return nil, fmt.Errorf("ConfigMap %s/%s names volume %q, which no server has recorded there; delete it", r.namespace,
			name, note.ID)
	}
	return note, nil
}

// Made records the id of the volume.
func (v *Volume) Made(ctx context.Context, id string) error {
	v.ID = id
	key, err := v.records.keys.Get(ctx)
	if err != nil {
		return fmt.Errorf("sign the id of a volume: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{volumeKey: id,
		volumeProofKey: key.Sign("volume id", v.configMap, id)}})
	if err != nil {
		return err
	}
	return v.records.retry(ctx, "record the id of a volume", func(ctx context.Context) error {
		return v.records.client.Patch(ctx, v.object(), client.RawPatch(types.MergePatchType, patch))
	})
}

// Drop deletes the note: a persistent volume refers to the volume, or there is none.
func (v *Volume) Drop(ctx context.Context) error {
	return v.records.retry(ctx, "delete the record of a volume", func(ctx context.Context) error {
		return client.IgnoreNotFound(v.records.client.Delete(ctx, v.object()))
	})
}

func (v *Volume) object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v.records.namespace, Name: v.configMap}}
}
