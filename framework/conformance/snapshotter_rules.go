package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

func snapshotterRules() []Rule {
	kinds := []string{"VolumeSnapshotter"}
	with := func(check func(context.Context, *snapshotter) error) func(context.Context, *subject) error {
		return func(ctx context.Context, s *subject) error {
			ready, err := s.snapshotter(ctx)
			if err != nil {
				return err
			}
			return check(ctx, ready)
		}
	}
	return []Rule{
		{
			ID: "snapshotter-before-init", Kinds: kinds, Severity: Must, check: checkSnapshotterBeforeInit,
			Text: "A call before Init is answered, with an error or without. The process does not exit.",
		},
		{
			ID: "snapshotter-config-missing", Kinds: kinds, Severity: Must, check: checkConfigMissing(nil),
			Text: "Init without a config is answered, with an error or without. The process does not exit.",
		},
		{
			ID: "snapshotter-config-unknown", Kinds: kinds, Severity: Should, check: checkConfigUnknown,
			Text: "A key of the config that the snapshotter does not know is an error, so that typing errors are found.",
		},
		{
			ID: "snapshotter-init", Kinds: kinds, Severity: Must, check: checkInit,
			Text: "Init accepts the given config, and requests with fields that the plugin does not know.",
		},
		{
			ID: "snapshotter-foreign", Kinds: kinds, Severity: Must, check: with(checkForeign),
			Text: "GetVolumeID of a PersistentVolume of another storage system answers an empty ID without an error: the host then asks the next location.",
		},
		{
			ID: "snapshotter-set-get", Kinds: kinds, Severity: Must, check: with(checkSetGet),
			Text: "GetVolumeID answers the ID that SetVolumeID has put into a PersistentVolume, whose kind and name do not change.",
		},
		{
			ID: "snapshotter-json-kept", Kinds: kinds, Severity: Should, check: with(checkVolumeKept),
			Text: "SetVolumeID keeps fields of the PersistentVolume that the plugin does not know.",
		},
		{
			ID: "snapshotter-garbage", Kinds: kinds, Severity: Must, check: with(checkVolumeGarbage),
			Text: "A PersistentVolume that is not a JSON object gets an error or an empty ID. The process does not exit.",
		},
		{
			ID: "snapshotter-unknown-volume", Kinds: kinds, Severity: Must, check: with(checkUnknownVolume),
			Text: "Calls about a volume or a snapshot that does not exist are answered. They do not panic, and the process does not exit.",
		},
		{
			ID: "snapshotter-snapshot", Kinds: kinds, Severity: Must, check: with(checkSnapshot),
			Text: "GetVolumeInfo answers IOPS that are not negative, CreateSnapshot answers an ID, and DeleteSnapshot deletes the snapshot.",
		},
		{
			ID: "snapshotter-delete-again", Kinds: kinds, Severity: Should, check: with(checkDeleteSnapshotAgain),
			Text: "DeleteSnapshot of a deleted snapshot is not an error, because an interrupted deletion is repeated from the start.",
		},
	}
}

// snapshotter is a VolumeSnapshotter whose Init was called.
type snapshotter struct {
	*subject
	client volumesnapshotterv1.VolumeSnapshotterClient
}

func (s *subject) snapshotter(ctx context.Context) (*snapshotter, error) {
	conn, err := s.needsInit(ctx)
	if err != nil {
		return nil, err
	}
	return &snapshotter{subject: s, client: volumesnapshotterv1.NewVolumeSnapshotterClient(conn)}, nil
}

func (s *snapshotter) volumeID(ctx context.Context, volume []byte) (string, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	got, err := s.client.GetVolumeID(ctx, &volumesnapshotterv1.GetVolumeIDRequest{Plugin: s.name, PersistentVolume: volume})
	return got.GetVolumeID(), err
}

func (s *snapshotter) setVolumeID(ctx context.Context, volume []byte, id string) ([]byte, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	got, err := s.client.SetVolumeID(ctx, &volumesnapshotterv1.SetVolumeIDRequest{Plugin: s.name, PersistentVolume: volume, VolumeID: id})
	return got.GetPersistentVolume(), err
}

func checkSnapshotterBeforeInit(ctx context.Context, s *subject) error {
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	early := &snapshotter{subject: s, client: volumesnapshotterv1.NewVolumeSnapshotterClient(conn)}
	if _, err := early.volumeID(ctx, foreignVolume().Stored()); hung(err) || panicked(err) {
		return fmt.Errorf("call of GetVolumeID before Init: %w", err)
	}
	return nil
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

func checkForeign(ctx context.Context, s *snapshotter) error {
	id, err := s.volumeID(ctx, foreignVolume().Stored())
	if err != nil {
		return fmt.Errorf("of an NFS volume: %w", err)
	}
	if id != "" {
		return fmt.Errorf("of an NFS volume it is %q", id)
	}
	return nil
}

// own returns a PersistentVolume of the snapshotter's storage system.
func (s *snapshotter) own(ctx context.Context) (sample.Sample, error) {
	for _, item := range s.items {
		if (&unstructured.Unstructured{Object: item.Object}).GetKind() != "PersistentVolume" {
			continue
		}
		if id, err := s.volumeID(ctx, item.Stored()); err == nil && id != "" {
			return item, nil
		}
	}
	return sample.Sample{}, skip("none of the items is a PersistentVolume of its storage system; give one")
}

func checkSetGet(ctx context.Context, s *snapshotter) error {
	volume, err := s.own(ctx)
	if err != nil {
		return err
	}
	const id = "conformance-vol-1"
	sent := volume.Stored()
	changed, err := s.setVolumeID(ctx, sent, id)
	if err != nil {
		return fmt.Errorf("call of SetVolumeID for %s: %w", volume, err)
	}
	got, err := sample.IdentityOf(changed)
	if err != nil {
		return err
	}
	if want, err := sample.IdentityOf(sent); err != nil || got != want {
		return fmt.Errorf("for %s SetVolumeID answers %s %s %s", volume, got.APIVersion, got.Kind, got.Name)
	}
	after, err := s.volumeID(ctx, changed)
	if err != nil {
		return err
	}
	if after != id {
		return fmt.Errorf("after SetVolumeID to %q, GetVolumeID is %q", id, after)
	}
	return nil
}

func checkVolumeKept(ctx context.Context, s *snapshotter) error {
	volume, err := s.own(ctx)
	if err != nil {
		return err
	}
	object := sample.CloneObject(volume.Object)
	object[unknownKey] = unknown()
	changed, err := s.setVolumeID(ctx, sample.Encode(object), "conformance-vol-1")
	if err != nil {
		return fmt.Errorf("call of SetVolumeID for a PersistentVolume with a field that it does not know: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(changed, &fields); err != nil {
		return skip("the PersistentVolume that is answered is no JSON")
	}
	if !sameJSON(fields[unknownKey], sample.Encode(unknown())) {
		return fmt.Errorf("asked with the field %q: %s, it answers with %s", unknownKey, sample.Encode(unknown()), sample.Brief(fields[unknownKey]))
	}
	return nil
}

func checkVolumeGarbage(ctx context.Context, s *snapshotter) error {
	for _, garbage := range []string{"", "{}", "null", "[]", "\x00\xff", `{"apiVersion":"v1","kind":"PersistentV`} {
		id, err := s.volumeID(ctx, []byte(garbage))
		if err := notHung(err); err != nil {
			return fmt.Errorf("call of GetVolumeID for %q: %w", garbage, err)
		}
		if err == nil && id != "" {
			return fmt.Errorf("for %q GetVolumeID answers %q", garbage, id)
		}
		changed, err := s.setVolumeID(ctx, []byte(garbage), "conformance-vol-1")
		if err := notHung(err); err != nil {
			return fmt.Errorf("call of SetVolumeID for %q: %w", garbage, err)
		}
		if err == nil && garbage != "" && garbage != "{}" && !bytes.Equal(changed, []byte(garbage)) {
			return fmt.Errorf("for %q SetVolumeID answers %s", garbage, sample.Brief(changed))
		}
	}
	return nil
}

func checkUnknownVolume(ctx context.Context, s *snapshotter) error {
	for _, id := range []string{"conformance-no-such-volume", "", strings.Repeat("x", 10_000)} {
		bounded, cancel := s.call(ctx)
		_, infoErr := s.client.GetVolumeInfo(bounded, &volumesnapshotterv1.GetVolumeInfoRequest{Plugin: s.name, VolumeID: id})
		_, deleteErr := s.client.DeleteSnapshot(bounded, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.name, SnapshotID: id})
		cancel()
		for call, err := range map[string]error{"GetVolumeInfo": infoErr, "DeleteSnapshot": deleteErr} {
			if hung(err) || panicked(err) {
				return fmt.Errorf("%s of %.40q: %w", call, id, err)
			}
		}
	}
	return nil
}

// needsVolume skips a rule that needs a volume of the caller.
func (s *snapshotter) needsVolume() error {
	if s.volume == "" {
		return skip("no volume is given that snapshots may be taken of")
	}
	return nil
}

func checkSnapshot(ctx context.Context, s *snapshotter) error {
	if err := s.needsVolume(); err != nil {
		return err
	}
	_, err := s.snapshotAndDelete(ctx)
	return err
}

// snapshotAndDelete takes a snapshot of the caller's volume and deletes it.
func (s *snapshotter) snapshotAndDelete(ctx context.Context) (id string, err error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	info, err := s.client.GetVolumeInfo(ctx, &volumesnapshotterv1.GetVolumeInfoRequest{Plugin: s.name, VolumeID: s.volume, VolumeAZ: s.zone})
	if err != nil {
		return "", fmt.Errorf("call of GetVolumeInfo for %q: %w", s.volume, err)
	}
	if info.GetIops() < 0 {
		return "", fmt.Errorf("for %q GetVolumeInfo tells %d operations a second", s.volume, info.GetIops())
	}
	taken, err := s.client.CreateSnapshot(ctx, &volumesnapshotterv1.CreateSnapshotRequest{
		Plugin: s.name, VolumeID: s.volume, VolumeAZ: s.zone, Tags: map[string]string{"velero.io/backup": "conformance"},
	})
	if err != nil {
		return "", fmt.Errorf("call of CreateSnapshot for %q: %w", s.volume, err)
	}
	if taken.GetSnapshotID() == "" {
		return "", fmt.Errorf("for %q CreateSnapshot answers no id", s.volume)
	}
	if _, err := s.client.DeleteSnapshot(ctx, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.name, SnapshotID: taken.GetSnapshotID()}); err != nil {
		return "", fmt.Errorf("call of DeleteSnapshot for %q: %w", taken.GetSnapshotID(), err)
	}
	return taken.GetSnapshotID(), nil
}

func checkDeleteSnapshotAgain(ctx context.Context, s *snapshotter) error {
	if err := s.needsVolume(); err != nil {
		return err
	}
	id, err := s.snapshotAndDelete(ctx)
	if err != nil {
		return skip("no snapshot could be taken and removed")
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	_, err = s.client.DeleteSnapshot(ctx, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.name, SnapshotID: id})
	return err
}
