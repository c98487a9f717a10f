package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// san is a VolumeSnapshotter without a storage system.
type san struct{}

func (san) Init(_ context.Context, config map[string]string) error {
	if config["region"] == "" {
		return fmt.Errorf("config has no region")
	}
	return nil
}

func (san) CreateVolumeFromSnapshot(_ context.Context, snapshotID, volumeType, volumeAZ string, iops *int64) (string, error) {
	if iops == nil {
		return fmt.Sprintf("%s/%s/%s", snapshotID, volumeType, volumeAZ), nil
	}
	return fmt.Sprintf("%s/%s/%s/%d", snapshotID, volumeType, volumeAZ, *iops), nil
}

func (san) GetVolumeInfo(_ context.Context, _, volumeAZ string) (string, *int64, error) {
	if volumeAZ == "" {
		return "plain", nil, nil
	}
	iops := int64(300)
	return "fast", &iops, nil
}

func (san) CreateSnapshot(_ context.Context, volumeID, volumeAZ string, tags map[string]string) (string, error) {
	return fmt.Sprintf("%s/%s/%s", volumeID, volumeAZ, tags["backup"]), nil
}

func (san) DeleteSnapshot(context.Context, string) error { return nil }

func (san) GetVolumeID(_ context.Context, persistentVolume *unstructured.Unstructured) (string, error) {
	handle, _, err := unstructured.NestedString(persistentVolume.Object, "spec", "volume")
	return handle, err
}

func (san) SetVolumeID(_ context.Context, persistentVolume *unstructured.Unstructured, volumeID string) (*unstructured.Unstructured, error) {
	return persistentVolume, unstructured.SetNestedField(persistentVolume.Object, volumeID, "spec", "volume")
}
