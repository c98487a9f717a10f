package volumesnapshotter_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

const (
	name   = "example.io/san"
	volume = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-1"},"spec":{"csi":{"volumeHandle":"vol-1"}}}`
)

// san is an author's snapshotter. The calls that it lacks are in TestAcceptPlugins_WireGolden.
type san struct{ vsv1.VolumeSnapshotter }

func (san) DeleteSnapshot(_ context.Context, input *vsv1.DeleteSnapshotInput) error {
	return errors.New("cannot delete " + input.SnapshotID)
}

func (san) GetVolumeID(_ context.Context, input *vsv1.GetVolumeIDInput) (*vsv1.GetVolumeIDOutput, error) {
	handle, _, err := unstructured.NestedString(input.PersistentVolume.Object, "spec", "csi", "volumeHandle")
	return &vsv1.GetVolumeIDOutput{VolumeID: handle}, err
}

func (san) SetVolumeID(_ context.Context, input *vsv1.SetVolumeIDInput) (*vsv1.SetVolumeIDOutput, error) {
	if input.VolumeID == "" {
		return nil, nil //nolint:nilnil // what the interface says a volume as it came is
	}
	return &vsv1.SetVolumeIDOutput{PersistentVolume: input.PersistentVolume},
		unstructured.SetNestedField(input.PersistentVolume.Object, input.VolumeID, "spec", "csi", "volumeHandle")
}

// initialized returns the hub over san after its Init.
func initialized(t *testing.T) volumesnapshotter.Snapshotter {
	t.Helper()
	snapshotter := volumesnapshotter.V1().Bind(
		plugintest.Serve(t, vsv1.Register(name, func(context.Context, *framework.Setup) (vsv1.VolumeSnapshotter, error) {
			return san{}, nil
		})), name)
	require.NoError(t, snapshotter.Init(t.Context(), nil))
	return snapshotter
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	volumesnapshotterv1.UnimplementedVolumeSnapshotterServer
}

func (raw) CreateVolumeFromSnapshot(
	context.Context, *volumesnapshotterv1.CreateVolumeRequest,
) (*volumesnapshotterv1.CreateVolumeResponse, error) {
	return &volumesnapshotterv1.CreateVolumeResponse{}, nil
}

func (raw) GetVolumeInfo(
	context.Context, *volumesnapshotterv1.GetVolumeInfoRequest,
) (*volumesnapshotterv1.GetVolumeInfoResponse, error) {
	return &volumesnapshotterv1.GetVolumeInfoResponse{VolumeType: "fast", Iops: -1}, nil
}

func (raw) CreateSnapshot(
	context.Context, *volumesnapshotterv1.CreateSnapshotRequest,
) (*volumesnapshotterv1.CreateSnapshotResponse, error) {
	return &volumesnapshotterv1.CreateSnapshotResponse{}, nil
}

func (raw) SetVolumeID(
	context.Context, *volumesnapshotterv1.SetVolumeIDRequest,
) (*volumesnapshotterv1.SetVolumeIDResponse, error) {
	return &volumesnapshotterv1.SetVolumeIDResponse{PersistentVolume: []byte("null")}, nil
}

func TestErrorOfTheSnapshotterIsPrefixedOnce(t *testing.T) {
	t.Parallel()
	require.EqualError(t, initialized(t).DeleteSnapshot(t.Context(), "snap-1"),
		"VolumeSnapshotter(example.io/san): cannot delete snap-1")
}

func TestVolumeOfAnotherStorageSystemHasNoID(t *testing.T) {
	t.Parallel()
	volumeID, err := initialized(t).GetVolumeID(t.Context(),
		[]byte(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv-1"}}`))
	require.NoError(t, err)
	require.Empty(t, volumeID)
}

func TestUnchangedVolumeIsReturnedByteForByte(t *testing.T) {
	t.Parallel()
	odd := " " + volume + " "
	changed, err := initialized(t).SetVolumeID(t.Context(), []byte(odd), "")
	require.NoError(t, err)
	require.Equal(t, odd, string(changed))
}

func TestUndecodableVolumeIsAnErrorThatNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := initialized(t).GetVolumeID(t.Context(), []byte("garbage"))
	require.ErrorContains(t, err, "VolumeSnapshotter(example.io/san): decode persistentVolume of the request: ")
	_, err = initialized(t).SetVolumeID(t.Context(), nil, "vol-2")
	require.ErrorContains(t, err, "decode persistentVolume of the request: ")
}

func TestInvalidRepliesAreRejected(t *testing.T) {
	t.Parallel()
	snapshotter := volumesnapshotter.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		volumesnapshotterv1.RegisterVolumeSnapshotterServer(server, raw{})
	}), name)
	for want, call := range map[string]func() error{
		"the new volume has no id": func() error {
			_, err := snapshotter.CreateVolumeFromSnapshot(t.Context(), "snap-1", volumesnapshotter.Volume{})
			return err
		},
		"a volume cannot have -1 operations per second": func() error {
			_, err := snapshotter.GetVolumeInfo(t.Context(), "vol-1", "")
			return err
		},
		"the new snapshot has no id": func() error {
			_, err := snapshotter.CreateSnapshot(t.Context(), "vol-1", "", nil)
			return err
		},
		"persistentVolume is not a JSON object": func() error {
			_, err := snapshotter.SetVolumeID(t.Context(), []byte(volume), "vol-2")
			return err
		},
	} {
		err := call()
		require.ErrorIs(t, err, versioning.ErrInvalidReply)
		require.ErrorContains(t, err, "VolumeSnapshotter(example.io/san): invalid reply: "+want)
	}
}
