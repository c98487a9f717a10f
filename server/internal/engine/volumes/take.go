package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// Open returns the plugin of the VolumeSnapshotLocation of that name.
type Open func(ctx context.Context, location string) (volumesnapshotter.Snapshotter, error)

// Taker takes the snapshots of one backup. It is safe for concurrent use.
type Taker struct {
	Backup    *velerov1.Backup
	Locations []string // names, in the order in which their plugins are asked whether a volume is theirs
	Open      Open
	Records   *Records // nil records nothing
	Log       hclog.Logger

	mu    sync.Mutex
	begun bool // CSI snapshots are on record
}

// Begin returns what takes the snapshots of a backup. If the backup has begun before, Begin removes the CSI snapshots
// that the attempt before has left, if there are some on record.
func (h *Hub) Begin(ctx context.Context, b *velerov1.Backup, again bool, log hclog.Logger) (*Taker, error) {
	if again && h.Records != nil {
		records, _, err := h.Records.Of(ctx, b.UID)
		if err == nil && slices.ContainsFunc(records, func(r *Record) bool { return r.CSI }) {
			err = h.CSI.Remove(ctx, b.UID)
		}
		if err != nil {
			return nil, fmt.Errorf("remove the CSI snapshots that the last attempt has left: %w", err)
		}
	}
	return &Taker{
		Backup: b.DeepCopy(), Locations: b.Spec.VolumeSnapshotLocations, Open: h.Open, Records: h.Records, Log: log,
	}, nil
}

// BeginCSI records that an action is about to take CSI snapshots. After an error it must not be called.
func (t *Taker) BeginCSI(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun || t.Records == nil {
		return nil
	}
	err := t.Records.BeginCSI(ctx, t.Backup)
	t.begun = err == nil
	return err
}

// Take takes a snapshot of a volume in the first location to whose storage system the volume belongs. It returns nil if
// it belongs to none. If the snapshot was requested and failed, Take returns it with an error.
//
// A location that cannot be asked is an error unless another one has the volume: the volume may be one of its own.
func (t *Taker) Take(ctx context.Context, pv *corev1.PersistentVolume, raw []byte) (*Snapshot, error) {
	var unanswered []error
	for _, name := range t.Locations {
		plugin, id, err := t.identify(ctx, name, raw)
		if err != nil {
			t.Log.Error("cannot ask the plugin of a volume snapshot location whether a volume is its own", "location", name,
				"persistentVolume", pv.Name, "error", err)
			unanswered = append(unanswered, fmt.Errorf("volume snapshot location %s: %w", name, err))
			continue
		}
		if id == "" {
			t.Log.Debug("the volume is not one of this location", "location", name, "persistentVolume", pv.Name)
			continue
		}
		return t.take(ctx, plugin, pv, Spec{
			BackupName: t.Backup.Name, BackupUID: string(t.Backup.UID), Location: name, PersistentVolumeName: pv.Name,
			ProviderVolumeID: id, VolumeAZ: zoneOf(pv),
		})
	}
	return nil, errors.Join(unanswered...)
}

// identify returns the id that a volume has in a location, "" if it belongs to another storage system.
func (t *Taker) identify(
	ctx context.Context, location string, raw []byte,
) (volumesnapshotter.Snapshotter, string, error) {
	plugin, err := t.Open(ctx, location)
	if err != nil {
		return nil, "", err
	}
	id, err := plugin.GetVolumeID(ctx, raw)
	return plugin, id, err
}

func (t *Taker) take(
	ctx context.Context, plugin volumesnapshotter.Snapshotter, pv *corev1.PersistentVolume, spec Spec,
) (*Snapshot, error) {
	like, err := plugin.GetVolumeInfo(ctx, spec.ProviderVolumeID, spec.VolumeAZ)
	if err != nil {
		return nil, fmt.Errorf("error getting volume info: %w", err)
	}
	spec.VolumeType = like.Type
	if like.IOPS != 0 {
		spec.VolumeIOPS = &like.IOPS
	}
	s := &Snapshot{Spec: spec, Status: Status{Phase: New}}
	defer waits.Begin(ctx, "a snapshot of persistent volume %s by the plugin of volume snapshot location %s", pv.Name,
		spec.Location).End()
	t.Log.Info("taking a snapshot of a persistent volume", "persistentVolume", pv.Name, "location", spec.Location,
		"volumeID", spec.ProviderVolumeID)
	id, err := t.create(ctx, plugin, s)
	if err != nil {
		s.Status.Phase = Failed
		return s, fmt.Errorf("error taking snapshot of volume: %w", err)
	}
	s.Status = Status{Phase: Completed, ProviderSnapshotID: id}
	return s, nil
}

// create has the plugin take a snapshot, which is on record from before the call.
func (t *Taker) create(ctx context.Context, plugin volumesnapshotter.Snapshotter, s *Snapshot) (string, error) {
	var record *Record
	if t.Records != nil {
		var err error
		if record, err = t.Records.Begin(ctx, t.Backup, s); err != nil {
			return "", err
		}
	}
	id, err := plugin.CreateSnapshot(ctx, s.Spec.ProviderVolumeID, s.Spec.VolumeAZ, t.tags(s))
	if err == nil && record != nil {
		if err = record.Taken(ctx, id); err != nil {
			// Nobody would find it again.
			err = errors.Join(err, plugin.DeleteSnapshot(context.WithoutCancel(ctx), id))
		}
	}
	if err == nil {
		return id, nil
	}
	if operation.LeavesDoubt(err) {
		err = fmt.Errorf("%w (whether the snapshot was taken is not known: look for one of volume %s with the tags "+
			"velero.io/backup=%s and velero.io/pv=%s, and delete it)",
			err, s.Spec.ProviderVolumeID, t.Backup.Name, s.Spec.PersistentVolumeName)
	}
	if record != nil && ctx.Err() == nil { // the next server reports what was interrupted
		err = errors.Join(err, record.Drop(ctx))
	}
	return "", err
}

// tags returns the tags of a snapshot, which are Velero's.
func (t *Taker) tags(s *Snapshot) map[string]string {
	tags := maps.Clone(t.Backup.Labels)
	if tags == nil {
		tags = map[string]string{}
	}
	tags["velero.io/backup"], tags["velero.io/pv"] = t.Backup.Name, s.Spec.PersistentVolumeName
	return tags
}

const (
	zoneLabel    = corev1.LabelTopologyZone
	oldZoneLabel = "failure-domain.beta.kubernetes.io/zone"
	gkeZone      = "topology.gke.io/zone"
)

// zoneOf returns the availability zone of a volume, "" if it has none: that of its labels, or the one that its node
// affinity requires. The zones of a regional disk of GKE are joined by "__", as Velero's plugin for it expects.
func zoneOf(pv *corev1.PersistentVolume) string {
	if zone := cmp.Or(pv.Labels[zoneLabel], pv.Labels[oldZoneLabel]); zone != "" {
		return zone
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	keys := []string{
		"topology.ebs.csi.aws.com/zone", "topology.disk.csi.azure.com/zone", gkeZone,
		"topology.cinder.csi.openstack.org/zone", "topology.manila.csi.openstack.org/zone", zoneLabel, oldZoneLabel,
	}
	var ofGKE []string
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			switch {
			case !slices.Contains(keys, e.Key) || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) == 0:
			case e.Key != gkeZone:
				return e.Values[0]
			default:
				ofGKE = append(ofGKE, e.Values[0])
			}
		}
	}
	return strings.Join(ofGKE, "__")
}
