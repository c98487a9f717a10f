package v1_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
)

// driver is the driver of the volumes that disks takes snapshots of.
const driver = "disks.example.io"

// settings is what users write as the config of a location.
type settings struct {
	vsv1.LocationConfig
	Region string `json:"region" jsonschema:"the region of the disks"`
}

// disks takes snapshots of the disks of a storage system. A real one calls the storage system.
type disks struct{ region string }

func newDisks(_ context.Context, setup *framework.Setup) (vsv1.VolumeSnapshotter, error) {
	return &disks{region: framework.Config[settings](setup).Region}, nil
}

func (d *disks) GetVolumeID(_ context.Context, input *vsv1.GetVolumeIDInput) (*vsv1.GetVolumeIDOutput, error) {
	name, _, err := unstructured.NestedString(input.PersistentVolume.Object, "spec", "csi", "driver")
	if err != nil || name != driver {
		return &vsv1.GetVolumeIDOutput{}, err // not one of ours
	}
	handle, _, err := unstructured.NestedString(input.PersistentVolume.Object, "spec", "csi", "volumeHandle")
	return &vsv1.GetVolumeIDOutput{VolumeID: handle}, err
}

func (d *disks) SetVolumeID(_ context.Context, input *vsv1.SetVolumeIDInput) (*vsv1.SetVolumeIDOutput, error) {
	err := unstructured.SetNestedField(input.PersistentVolume.Object, input.VolumeID, "spec", "csi", "volumeHandle")
	return &vsv1.SetVolumeIDOutput{PersistentVolume: input.PersistentVolume}, err
}

func (d *disks) GetVolumeInfo(context.Context, *vsv1.GetVolumeInfoInput) (*vsv1.GetVolumeInfoOutput, error) {
	return &vsv1.GetVolumeInfoOutput{VolumeType: "ssd"}, nil
}

func (d *disks) CreateSnapshot(_ context.Context, input *vsv1.CreateSnapshotInput) (*vsv1.CreateSnapshotOutput, error) {
	return &vsv1.CreateSnapshotOutput{SnapshotID: d.region + "/snapshot-of-" + input.VolumeID}, nil
}

func (d *disks) DeleteSnapshot(context.Context, *vsv1.DeleteSnapshotInput) error { return nil }

func (d *disks) CreateVolumeFromSnapshot(
	_ context.Context, input *vsv1.CreateVolumeFromSnapshotInput,
) (*vsv1.CreateVolumeFromSnapshotOutput, error) {
	return &vsv1.CreateVolumeFromSnapshotOutput{VolumeID: "volume-of-" + input.SnapshotID}, nil
}

func Example() {
	registration := vsv1.Register("example.io/disks", newDisks, framework.WithConfig(settings{}))
	fmt.Println(registration.Kind(), registration.Name())

	volume := &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"csi": map[string]any{"driver": driver, "volumeHandle": "disk-7"}}},
	}
	snapshotter := &disks{region: "north"}
	id, err := snapshotter.GetVolumeID(context.TODO(), &vsv1.GetVolumeIDInput{PersistentVolume: volume})
	fmt.Println(id.VolumeID, err)
	snapshot, err := snapshotter.CreateSnapshot(context.TODO(), &vsv1.CreateSnapshotInput{VolumeID: id.VolumeID})
	fmt.Println(snapshot.SnapshotID, err)
	// Output:
	// VolumeSnapshotter example.io/disks
	// disk-7 <nil>
	// north/snapshot-of-disk-7 <nil>
}
