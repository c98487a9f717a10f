package storage

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// snapshotter is a VolumeSnapshotter whose Init was called.
type snapshotter struct {
	*plugin
	client volumesnapshotterv1.VolumeSnapshotterClient
}

// snapshotter returns the VolumeSnapshotter after its Init.
func (s *plugin) snapshotter(ctx context.Context) (*snapshotter, error) {
	conn, err := s.needsInit(ctx)
	if err != nil {
		return nil, err
	}
	return &snapshotter{plugin: s, client: volumesnapshotterv1.NewVolumeSnapshotterClient(conn)}, nil
}

func (s *snapshotter) volumeID(ctx context.Context, volume []byte) (string, error) {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	got, err := s.client.GetVolumeID(ctx, &volumesnapshotterv1.GetVolumeIDRequest{Plugin: s.Name,
		PersistentVolume: volume})
	return got.GetVolumeID(), err
}

func (s *snapshotter) setVolumeID(ctx context.Context, volume []byte, id string) ([]byte, error) {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	got, err := s.client.SetVolumeID(ctx, &volumesnapshotterv1.SetVolumeIDRequest{Plugin: s.Name, PersistentVolume: volume,
		VolumeID: id})
	return got.GetPersistentVolume(), err
}

// foreignVolume returns a PersistentVolume of a storage system without snapshots.
func foreignVolume() sample.Sample {
	return sample.Sample{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolume",
		"metadata": map[string]any{"name": "foreign"},
		"spec": map[string]any{
			"capacity": map[string]any{"storage": "1Gi"}, "accessModes": []any{"ReadWriteMany"},
			"nfs": map[string]any{"server": "nfs.invalid", "path": "/conformance"},
		},
	}}
}

// own returns a PersistentVolume of the snapshotter's storage system.
func (s *snapshotter) own(ctx context.Context) (sample.Sample, error) {
	for _, item := range s.Items {
		if (&unstructured.Unstructured{Object: item.Object}).GetKind() != "PersistentVolume" {
			continue
		}
		if id, err := s.volumeID(ctx, item.Stored()); err == nil && id != "" {
			return item, nil
		}
	}
	return sample.Sample{}, suite.Skip("none of the items is a PersistentVolume of its storage system; give one")
}

// needsVolume skips a rule that needs a volume of the caller.
func (s *snapshotter) needsVolume() error {
	if s.Volume == "" {
		return suite.Skip("no volume is given that snapshots may be taken of")
	}
	return nil
}

// snapshotAndDelete takes a snapshot of the caller's volume and deletes it.
func (s *snapshotter) snapshotAndDelete(ctx context.Context) (id string, err error) {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	info, err := s.client.GetVolumeInfo(ctx, &volumesnapshotterv1.GetVolumeInfoRequest{Plugin: s.Name, VolumeID: s.Volume,
		VolumeAZ: s.Zone})
	if err != nil {
		return "", fmt.Errorf("call of GetVolumeInfo for %q: %w", s.Volume, err)
	}
	if info.GetIops() < 0 {
		return "", fmt.Errorf("for %q GetVolumeInfo tells %d operations a second", s.Volume, info.GetIops())
	}
	taken, err := s.client.CreateSnapshot(ctx, &volumesnapshotterv1.CreateSnapshotRequest{
		Plugin: s.Name, VolumeID: s.Volume, VolumeAZ: s.Zone, Tags: map[string]string{"velero.io/backup": "conformance"},
	})
	if err != nil {
		return "", fmt.Errorf("call of CreateSnapshot for %q: %w", s.Volume, err)
	}
	if taken.GetSnapshotID() == "" {
		return "", fmt.Errorf("for %q CreateSnapshot answers no id", s.Volume)
	}
	if _, err := s.client.DeleteSnapshot(ctx, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.Name,
		SnapshotID: taken.GetSnapshotID()}); err != nil {
		return "", fmt.Errorf("call of DeleteSnapshot for %q: %w", taken.GetSnapshotID(), err)
	}
	return taken.GetSnapshotID(), nil
}

// SnapshotterWork asks about a volume of another storage system, in an object of some bytes.
func SnapshotterWork(ctx context.Context, s *suite.Subject, size int) error {
	ready, err := (&plugin{s}).snapshotter(ctx)
	if err != nil {
		return err
	}
	_, err = ready.volumeID(ctx, sample.Pad(foreignVolume().Padded().Stored(), size))
	return err
}
