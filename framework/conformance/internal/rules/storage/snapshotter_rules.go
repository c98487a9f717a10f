package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// withSnapshotter adapts a check of a VolumeSnapshotter after its Init.
func withSnapshotter(check func(context.Context, *snapshotter) error) suite.Check {
	return with(func(ctx context.Context, s *plugin) error {
		ready, err := s.snapshotter(ctx)
		if err != nil {
			return err
		}
		return check(ctx, ready)
	})
}

func snapshotterRules() []suite.Rule {
	kinds := []string{vsv1.Kind().Wire}
	return []suite.Rule{
		{
			ID: "snapshotter-before-init", Kinds: kinds, Check: with(checkSnapshotterBeforeInit),
			Text: "A call before Init is answered, with an error of whatever kind or without. The process does not exit.",
		},
		{
			ID: "snapshotter-config-missing", Kinds: kinds, Check: with(checkConfigMissing(nil)),
			Text: "Init without a config is answered, with an error or without. The process does not exit.",
		},
		{
			ID: "snapshotter-config-unknown", Kinds: kinds, Should: true, Check: with(checkConfigUnknown),
			Text: "A key of the config that the snapshotter does not know is an error, so that typing errors are found.",
		},
		{
			ID: "snapshotter-init", Kinds: kinds, Check: with(checkInit),
			Text: "Init accepts the given config, and requests with fields that the plugin does not know.",
		},
		{
			ID: "snapshotter-foreign", Kinds: kinds, Check: withSnapshotter(checkForeign),
			Text: "GetVolumeID of a PersistentVolume of another storage system answers an empty ID without an error: the host " +
				"then asks the next location.",
		},
		{
			ID: "snapshotter-set-get", Kinds: kinds, Check: withSnapshotter(checkSetGet),
			Text: "GetVolumeID answers the ID that SetVolumeID has put into a PersistentVolume, whose kind and name do not " +
				"change.",
		},
		{
			ID: "snapshotter-json-kept", Kinds: kinds, Should: true, Check: withSnapshotter(checkVolumeKept),
			Text: "SetVolumeID keeps fields of the PersistentVolume that the plugin does not know.",
		},
		{
			ID: "snapshotter-garbage", Kinds: kinds, Check: withSnapshotter(checkVolumeGarbage),
			Text: "A PersistentVolume that is not a JSON object gets an error or an empty ID. The process does not exit.",
		},
		{
			ID: "snapshotter-unknown-volume", Kinds: kinds, Check: withSnapshotter(checkUnknownVolume),
			Text: "Calls about a volume or a snapshot that does not exist are answered. They do not panic, and the process " +
				"does not exit.",
		},
		{
			ID: "snapshotter-snapshot", Kinds: kinds, Check: withSnapshotter(checkSnapshot),
			Text: "GetVolumeInfo answers IOPS that are not negative, CreateSnapshot answers an ID, and DeleteSnapshot deletes " +
				"the snapshot.",
		},
		{
			ID: "snapshotter-delete-again", Kinds: kinds, Should: true, Check: withSnapshotter(checkDeleteSnapshotAgain),
			Text: "DeleteSnapshot of a deleted snapshot is not an error, because an interrupted deletion is repeated from the " +
				"start.",
		},
	}
}

func checkSnapshotterBeforeInit(ctx context.Context, s *plugin) error {
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	early := &snapshotter{plugin: s, client: volumesnapshotterv1.NewVolumeSnapshotterClient(conn)}
	if _, err := early.volumeID(ctx, foreignVolume().Stored()); suite.Hung(err) {
		return fmt.Errorf("call of GetVolumeID before Init: %w", err)
	}
	return nil
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
	object[sample.UnknownKey] = sample.Unknown()
	changed, err := s.setVolumeID(ctx, sample.Encode(object), "conformance-vol-1")
	if err != nil {
		return fmt.Errorf("call of SetVolumeID for a PersistentVolume with a field that it does not know: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(changed, &fields); err != nil {
		return suite.Skip("the PersistentVolume that is answered is not JSON")
	}
	if !sample.SameJSON(fields[sample.UnknownKey], sample.Encode(sample.Unknown())) {
		return fmt.Errorf("asked with the field %q: %s, it answers with %s", sample.UnknownKey,
			sample.Encode(sample.Unknown()), sample.Brief(fields[sample.UnknownKey]))
	}
	return nil
}

func checkVolumeGarbage(ctx context.Context, s *snapshotter) error {
	for _, garbage := range []string{"", "{}", "null", "[]", "\x00\xff", `{"apiVersion":"v1","kind":"PersistentV`} {
		id, err := s.volumeID(ctx, []byte(garbage))
		if err := suite.NotHung(err); err != nil {
			return fmt.Errorf("call of GetVolumeID for %q: %w", garbage, err)
		}
		if err == nil && id != "" {
			return fmt.Errorf("for %q GetVolumeID answers %q", garbage, id)
		}
		changed, err := s.setVolumeID(ctx, []byte(garbage), "conformance-vol-1")
		if err := suite.NotHung(err); err != nil {
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
		bounded, cancel := s.Call(ctx)
		_, infoErr := s.client.GetVolumeInfo(bounded, &volumesnapshotterv1.GetVolumeInfoRequest{Plugin: s.Name, VolumeID: id})
		_, deleteErr := s.client.DeleteSnapshot(bounded, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.Name,
			SnapshotID: id})
		cancel()
		for call, err := range map[string]error{"GetVolumeInfo": infoErr, "DeleteSnapshot": deleteErr} {
			if suite.Hung(err) || suite.Panicked(err) {
				return fmt.Errorf("%s of %.40q: %w", call, id, err)
			}
		}
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

func checkDeleteSnapshotAgain(ctx context.Context, s *snapshotter) error {
	if err := s.needsVolume(); err != nil {
		return err
	}
	id, err := s.snapshotAndDelete(ctx)
	if err != nil {
		return suite.Skip("no snapshot could be taken and removed")
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	_, err = s.client.DeleteSnapshot(ctx, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.Name, SnapshotID: id})
	return err
}
