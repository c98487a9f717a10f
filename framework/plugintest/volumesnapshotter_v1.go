package plugintest

import (
	"context"

	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// VolumeSnapshotterV1 returns the snapshotter that is registered as name. Its Init is called before its first call.
func (p *Plugin) VolumeSnapshotterV1(name string, options ...Option) vsv1.VolumeSnapshotter {
	p.t.Helper()
	config := p.location(chosen(options).config)
	client := volumesnapshotterv1.NewVolumeSnapshotterClient(&preparedConn{ClientConnInterface: p.conn,
		prepare: func(ctx context.Context) error {
			_, err := volumesnapshotterv1.NewVolumeSnapshotterClient(p.conn).Init(ctx,
				&volumesnapshotterv1.VolumeSnapshotterInitRequest{Plugin: name, Config: config})
			return err
		}})
	return volumeSnapshotterV1{p.target(vsv1.Kind().KindVersion, name), client}
}

type volumeSnapshotterV1 struct {
	target
	client volumesnapshotterv1.VolumeSnapshotterClient
}

func (s volumeSnapshotterV1) CreateVolumeFromSnapshot(
	ctx context.Context, input *vsv1.CreateVolumeFromSnapshotInput,
) (*vsv1.CreateVolumeFromSnapshotOutput, error) {
	request := &volumesnapshotterv1.CreateVolumeRequest{
		Plugin: s.name, SnapshotID: input.SnapshotID, VolumeType: input.VolumeType, VolumeAZ: input.VolumeAZ,
	}
	if input.IOPS != nil {
		request.Iops = *input.IOPS
	}
	answer, err := s.client.CreateVolumeFromSnapshot(ctx, request)
	if err != nil {
		return nil, s.wrap(err)
	}
	return &vsv1.CreateVolumeFromSnapshotOutput{VolumeID: answer.GetVolumeID()}, nil
}

func (s volumeSnapshotterV1) GetVolumeInfo(
	ctx context.Context, input *vsv1.GetVolumeInfoInput,
) (*vsv1.GetVolumeInfoOutput, error) {
	answer, err := s.client.GetVolumeInfo(ctx, &volumesnapshotterv1.GetVolumeInfoRequest{
		Plugin: s.name, VolumeID: input.VolumeID, VolumeAZ: input.VolumeAZ,
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	output := &vsv1.GetVolumeInfoOutput{VolumeType: answer.GetVolumeType()}
	if iops := answer.GetIops(); iops != 0 {
		output.IOPS = &iops
	}
	return output, nil
}

func (s volumeSnapshotterV1) CreateSnapshot(
	ctx context.Context, input *vsv1.CreateSnapshotInput,
) (*vsv1.CreateSnapshotOutput, error) {
	answer, err := s.client.CreateSnapshot(ctx, &volumesnapshotterv1.CreateSnapshotRequest{
		Plugin: s.name, VolumeID: input.VolumeID, VolumeAZ: input.VolumeAZ, Tags: input.Tags,
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	return &vsv1.CreateSnapshotOutput{SnapshotID: answer.GetSnapshotID()}, nil
}

func (s volumeSnapshotterV1) DeleteSnapshot(ctx context.Context, input *vsv1.DeleteSnapshotInput) error {
	_, err := s.client.DeleteSnapshot(ctx, &volumesnapshotterv1.DeleteSnapshotRequest{Plugin: s.name,
		SnapshotID: input.SnapshotID})
	return s.wrap(err)
}

func (s volumeSnapshotterV1) GetVolumeID(
	ctx context.Context, input *vsv1.GetVolumeIDInput,
) (*vsv1.GetVolumeIDOutput, error) {
	answer, err := s.client.GetVolumeID(ctx, &volumesnapshotterv1.GetVolumeIDRequest{
		Plugin: s.name, PersistentVolume: encodeItem(input.PersistentVolume),
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	return &vsv1.GetVolumeIDOutput{VolumeID: answer.GetVolumeID()}, nil
}

func (s volumeSnapshotterV1) SetVolumeID(
	ctx context.Context, input *vsv1.SetVolumeIDInput,
) (*vsv1.SetVolumeIDOutput, error) {
	answer, err := s.client.SetVolumeID(ctx, &volumesnapshotterv1.SetVolumeIDRequest{
		Plugin: s.name, PersistentVolume: encodeItem(input.PersistentVolume), VolumeID: input.VolumeID,
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	changed, err := decodeItem(answer.GetPersistentVolume())
	if err != nil {
		return nil, s.wrap(err)
	}
	return &vsv1.SetVolumeIDOutput{PersistentVolume: changed}, nil
}
