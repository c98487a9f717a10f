package csidriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Parameters of a VolumeSnapshotClass or a StorageClass.
const (
	// MadeWith is a file. Without it, a snapshot is not made, and neither is a volume that is not made from a
	// snapshot.
	MadeWith = "madeWith"
	// ReadyWith is a file. Without it, a snapshot is not ready to use.
	ReadyWith = "readyWith"
	// OwnedBy is the only user who may read a new volume that is not made from a snapshot.
	OwnedBy = "ownedBy"
	// Inodes is the number of files of a new volume, with its root. The volume is in the memory of the node, from the time
	// when a pod mounts it until the pod ends.
	Inodes = "inodes"
)

// record is the file beside the directory of a snapshot.
type record struct {
	Source    string
	Size      int64
	Created   time.Time
	ReadyWith string
	Group     string // empty if the snapshot was taken alone
}

func (d *Driver) record(id string) string { return filepath.Join(d.snapshots(), id+".json") }

// CreateVolume implements csi.ControllerServer. The id of a volume is its name.
func (d *Driver) CreateVolume(
	ctx context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	volume := &csi.Volume{VolumeId: request.Name, CapacityBytes: request.GetCapacityRange().GetRequiredBytes(),
		ContentSource: request.VolumeContentSource}
	if inodes := request.Parameters[Inodes]; inodes != "" {
		volume.VolumeContext = map[string]string{Inodes: inodes}
	}
	if exists(d.Volume(request.Name)) {
		return &csi.CreateVolumeResponse{Volume: volume}, nil
	}
	source := request.GetVolumeContentSource().GetSnapshot()
	if source == nil {
		for file := request.Parameters[MadeWith]; file != "" && !exists(file); {
			select {
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		return &csi.CreateVolumeResponse{Volume: volume}, d.create(request)
	}
	made, err := d.snapshot(source.SnapshotId)
	if err != nil {
		return nil, err
	}
	if !made.ReadyToUse || made.SizeBytes > volume.CapacityBytes {
		return nil, status.Errorf(codes.OutOfRange, "snapshot %s has %d bytes and ready=%t, the volume has %d",
			source.SnapshotId, made.SizeBytes, made.ReadyToUse, volume.CapacityBytes)
	}
	return &csi.CreateVolumeResponse{Volume: volume}, copyTo(filepath.Join(d.snapshots(), source.SnapshotId),
		d.Volume(request.Name))
}

// create makes an empty volume.
func (d *Driver) create(request *csi.CreateVolumeRequest) error {
	dir := d.Volume(request.Name)
	isBlock := func(c *csi.VolumeCapability) bool { return c.GetBlock() != nil }
	if slices.ContainsFunc(request.VolumeCapabilities, isBlock) {
		if err := os.MkdirAll(dir+".part", 0o755); err != nil {
			return err
		}
		file := filepath.Join(dir+".part", deviceFile)
		if err := errors.Join(os.WriteFile(file, nil, 0o600),
			os.Truncate(file, request.GetCapacityRange().GetRequiredBytes())); err != nil {
			return err
		}
		return os.Rename(dir+".part", dir)
	}
	owner := request.Parameters[OwnedBy]
	if owner == "" {
		return os.Mkdir(dir, 0o755)
	}
	user, err := strconv.Atoi(owner)
	if err != nil {
		return err
	}
	return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, user, user))
}

// DeleteVolume implements csi.ControllerServer.
func (d *Driver) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, os.RemoveAll(d.Volume(filepath.Base(request.VolumeId)))
}

// CreateSnapshot implements csi.ControllerServer. The id of a snapshot is its name.
func (d *Driver) CreateSnapshot(
	_ context.Context, request *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if file := request.Parameters[MadeWith]; file != "" && !exists(file) {
		return nil, status.Errorf(codes.FailedPrecondition, "there is no file %s", filepath.Base(file))
	}
	if !exists(d.record(request.Name)) {
		if !exists(d.Volume(request.SourceVolumeId)) {
			return nil, status.Errorf(codes.NotFound, "there is no volume %s", request.SourceVolumeId)
		}
		err := d.take(request.Name, record{Source: request.SourceVolumeId, Size: d.size(request.SourceVolumeId),
			Created: time.Now(), ReadyWith: request.Parameters[ReadyWith]})
		if err != nil {
			return nil, err
		}
	}
	made, err := d.snapshot(request.Name)
	return &csi.CreateSnapshotResponse{Snapshot: made}, err
}

// take makes a snapshot of a volume.
func (d *Driver) take(id string, r record) error {
	if err := copyTo(d.Volume(r.Source), filepath.Join(d.snapshots(), id)); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(d.record(id), text, 0o600)
}

// size returns the size of a block volume. For a directory, it returns the size that tests request.
func (d *Driver) size(volume string) int64 {
	if device, err := os.Stat(filepath.Join(d.Volume(volume), deviceFile)); err == nil {
		return device.Size()
	}
	return 1 << 30
}

// DeleteSnapshot implements csi.ControllerServer.
func (d *Driver) DeleteSnapshot(
	_ context.Context, request *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	id := filepath.Base(request.SnapshotId)
	return &csi.DeleteSnapshotResponse{}, errors.Join(os.RemoveAll(filepath.Join(d.snapshots(), id)),
		os.RemoveAll(d.record(id)))
}

// ListSnapshots implements csi.ControllerServer.
func (d *Driver) ListSnapshots(
	_ context.Context, request *csi.ListSnapshotsRequest,
) (*csi.ListSnapshotsResponse, error) {
	ids, err := d.Snapshots()
	if request.SnapshotId != "" {
		ids = []string{request.SnapshotId}
	}
	response := &csi.ListSnapshotsResponse{}
	for _, id := range ids {
		made, err := d.snapshot(id)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if request.SourceVolumeId == "" || request.SourceVolumeId == made.SourceVolumeId {
			response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: made})
		}
	}
	return response, err
}

func (d *Driver) snapshot(id string) (*csi.Snapshot, error) {
	text, err := os.ReadFile(d.record(filepath.Base(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "there is no snapshot %s", id)
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	return &csi.Snapshot{
		SnapshotId: id, SourceVolumeId: r.Source, SizeBytes: r.Size, CreationTime: timestamppb.New(r.Created),
		ReadyToUse: r.ReadyWith == "" || exists(r.ReadyWith), GroupSnapshotId: r.Group,
	}, nil
}

// SnapshotsOf returns the ids of the snapshots of the volumes for which of returns true, sorted.
func (d *Driver) SnapshotsOf(of func(volume string) bool) (found []string, err error) {
	ids, err := d.Snapshots()
	for _, id := range ids {
		made, errOne := d.snapshot(id)
		if errOne == nil && of(made.SourceVolumeId) {
			found = append(found, id)
		}
	}
	return found, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyTo copies a directory with all metadata of its files, atomically for readers.
func copyTo(from, to string) error {
	part := to + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", from, part).CombinedOutput(); err != nil {
		return fmt.Errorf("copy a volume: %w: %s", err, out)
	}
	return os.Rename(part, to)
}
