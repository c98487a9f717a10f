package csidriver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// WithoutGroups is a parameter of a VolumeGroupSnapshotClass. With it, the driver does not implement group snapshots.
const WithoutGroups = "withoutGroups"

// GroupControllerGetCapabilities implements csi.GroupControllerServer.
func (d *Driver) GroupControllerGetCapabilities(
	context.Context, *csi.GroupControllerGetCapabilitiesRequest,
) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
			Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
		}},
	}}}, nil
}

// CreateVolumeGroupSnapshot implements csi.GroupControllerServer. The id of a group is its name. Nothing is written by
// Write while the snapshots are made.
func (d *Driver) CreateVolumeGroupSnapshot(
	_ context.Context, request *csi.CreateVolumeGroupSnapshotRequest,
) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	if _, given := request.Parameters[WithoutGroups]; given {
		return nil, status.Error(codes.Unimplemented, "this driver has no group snapshots")
	}
	if file := request.Parameters[MadeWith]; file != "" && !exists(file) {
		return nil, status.Errorf(codes.FailedPrecondition, "there is no file %s", filepath.Base(file))
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	if known, err := d.group(request.Name); err == nil {
		return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: known}, nil
	}
	r := record{Created: time.Now(), ReadyWith: request.Parameters[ReadyWith], Group: request.Name}
	for _, volume := range request.SourceVolumeIds {
		if !exists(d.Volume(volume)) {
			return nil, status.Errorf(codes.NotFound, "there is no volume %s", volume)
		}
	}
	for _, volume := range request.SourceVolumeIds {
		r.Source, r.Size = volume, d.size(volume)
		if err := d.take(request.Name+"-"+volume, r); err != nil {
			return nil, err
		}
	}
	made, err := d.group(request.Name)
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: made}, err
}

// group returns the snapshots of a group.
func (d *Driver) group(id string) (*csi.VolumeGroupSnapshot, error) {
	ids, err := d.Snapshots()
	if err != nil {
		return nil, err
	}
	group := &csi.VolumeGroupSnapshot{GroupSnapshotId: id, ReadyToUse: true}
	for _, one := range ids {
		made, err := d.snapshot(one)
		if err != nil || made.GroupSnapshotId != id {
			continue
		}
		group.Snapshots, group.CreationTime = append(group.Snapshots, made), made.CreationTime
		group.ReadyToUse = group.ReadyToUse && made.ReadyToUse
	}
	if len(group.Snapshots) == 0 {
		return nil, status.Errorf(codes.NotFound, "there is no group %s", id)
	}
	return group, nil
}

// groupOf returns the snapshots of a group, which must be those that a request lists.
func (d *Driver) groupOf(id string, listed []string) (*csi.VolumeGroupSnapshot, error) {
	group, err := d.group(id)
	if err != nil {
		return nil, err
	}
	for _, member := range group.Snapshots {
		if !slices.Contains(listed, member.SnapshotId) {
			return nil, status.Errorf(codes.InvalidArgument, "snapshot %s of group %s is not listed", member.SnapshotId, id)
		}
	}
	return group, nil
}

// GetVolumeGroupSnapshot implements csi.GroupControllerServer.
func (d *Driver) GetVolumeGroupSnapshot(
	_ context.Context, request *csi.GetVolumeGroupSnapshotRequest,
) (*csi.GetVolumeGroupSnapshotResponse, error) {
	group, err := d.groupOf(filepath.Base(request.GroupSnapshotId), request.SnapshotIds)
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: group}, err
}

// DeleteVolumeGroupSnapshot implements csi.GroupControllerServer.
func (d *Driver) DeleteVolumeGroupSnapshot(
	ctx context.Context, request *csi.DeleteVolumeGroupSnapshotRequest,
) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	group, err := d.groupOf(filepath.Base(request.GroupSnapshotId), request.SnapshotIds)
	if status.Code(err) == codes.NotFound {
		return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
	}
	for _, member := range group.GetSnapshots() {
		_, errOne := d.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: member.SnapshotId})
		err = errors.Join(err, errOne)
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, err
}

// GroupsOf returns the ids of the groups that snapshots belong to, or belonged to.
func (d *Driver) GroupsOf(snapshots []string) (groups []string, err error) {
	for _, id := range snapshots {
		made, err := d.snapshot(id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(groups, made.GroupSnapshotId) {
			groups = append(groups, made.GroupSnapshotId)
		}
	}
	return groups, nil
}

// Write writes a file in each of several volumes, as one step for group snapshots.
func (d *Driver) Write(name, content string, volumes ...string) (err error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	for _, volume := range volumes {
		err = errors.Join(err, os.WriteFile(filepath.Join(d.Volume(volume), name), []byte(content), 0o600))
	}
	return err
}
