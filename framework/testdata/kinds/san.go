package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
)

// san is a VolumeSnapshotter without a storage system.
type san struct{}

// location is the config of san.
type location struct {
	Region string `json:"region,omitempty"`
}

func newSAN(_ context.Context, setup *framework.Setup) (vsv1.VolumeSnapshotter, error) {
	if framework.Config[location](setup).Region == "" {
		return nil, errors.New("config has no region")
	}
	return san{}, nil
}

func (san) CreateVolumeFromSnapshot(
	_ context.Context, input *vsv1.CreateVolumeFromSnapshotInput,
) (*vsv1.CreateVolumeFromSnapshotOutput, error) {
	id := fmt.Sprintf("%s/%s/%s", input.SnapshotID, input.VolumeType, input.VolumeAZ)
	if input.IOPS != nil {
		id += fmt.Sprintf("/%d", *input.IOPS)
	}
	return &vsv1.CreateVolumeFromSnapshotOutput{VolumeID: id}, nil
}

func (san) GetVolumeInfo(_ context.Context, input *vsv1.GetVolumeInfoInput) (*vsv1.GetVolumeInfoOutput, error) {
	if input.VolumeAZ == "" {
		return &vsv1.GetVolumeInfoOutput{VolumeType: "plain"}, nil
	}
	iops := int64(300)
	return &vsv1.GetVolumeInfoOutput{VolumeType: "fast", IOPS: &iops}, nil
}

func (san) CreateSnapshot(_ context.Context, input *vsv1.CreateSnapshotInput) (*vsv1.CreateSnapshotOutput, error) {
	return &vsv1.CreateSnapshotOutput{SnapshotID: fmt.Sprintf("%s/%s/%s", input.VolumeID, input.VolumeAZ,
		input.Tags["backup"])}, nil
}

func (san) DeleteSnapshot(context.Context, *vsv1.DeleteSnapshotInput) error { return nil }

func (san) GetVolumeID(_ context.Context, input *vsv1.GetVolumeIDInput) (*vsv1.GetVolumeIDOutput, error) {
	handle, _, err := unstructured.NestedString(input.PersistentVolume.Object, "spec", "volume")
	return &vsv1.GetVolumeIDOutput{VolumeID: handle}, err
}

func (san) SetVolumeID(_ context.Context, input *vsv1.SetVolumeIDInput) (*vsv1.SetVolumeIDOutput, error) {
	return &vsv1.SetVolumeIDOutput{PersistentVolume: input.PersistentVolume},
		unstructured.SetNestedField(input.PersistentVolume.Object, input.VolumeID, "spec", "volume")
}
