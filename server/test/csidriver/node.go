package csidriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/pods"
)

const (
	// kubelet is the path of controlplane.Node.Kubelet on the node.
	kubelet = "/var/lib/kubelet"
	// socket is the socket of the driver, below kubelet.
	socket = "plugins/directories/csi.sock"
	// deviceFile is the content of a block volume, in its directory.
	deviceFile = "device"
)

// ServeNode serves the driver for the kubelet of a cluster's node, and registers it there, until stop is called.
// Volumes must be in the cluster's directory, because mounted volumes that a test leaves are removed with it.
func (d *Driver) ServeNode(cluster *controlplane.Cluster) (stop func(), err error) {
	if !strings.HasPrefix(d.Dir, cluster.Dir+"/") {
		return nil, fmt.Errorf("the volumes of the driver are in %s, want a directory in that of the cluster, %s", d.Dir,
			cluster.Dir)
	}
	d.node, d.devices = cluster, map[string]*os.File{}
	stopDriver, err := serve(filepath.Join(cluster.Node.Kubelet, socket), func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, d)
		csi.RegisterNodeServer(server, d)
	})
	if err != nil {
		return nil, err
	}
	stopRegistration, err := serve(filepath.Join(cluster.Node.Kubelet, "plugins_registry", "csi.sock"),
		func(server *grpc.Server) {
			registration.RegisterRegistrationServer(server, registrar{})
		})
	if err != nil {
		stopDriver()
		return nil, err
	}
	return func() { stopRegistration(); stopDriver() }, nil
}

// registrar announces the driver to the kubelet.
type registrar struct {
	registration.UnimplementedRegistrationServer
}

// GetInfo implements registration.RegistrationServer.
func (registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: Name, Endpoint: filepath.Join(kubelet, socket), SupportedVersions: []string{
			"1.0.0",
		},
	}, nil
}

// NotifyRegistrationStatus implements registration.RegistrationServer.
func (registrar) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		fmt.Fprintln(os.Stderr, "csidriver: the kubelet has not registered the driver:", s.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// NodeGetInfo implements csi.NodeServer.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node.Node.Name}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (d *Driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume implements csi.NodeServer. It may be called again.
func (d *Driver) NodePublishVolume(
	ctx context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	volume := d.Volume(filepath.Base(request.VolumeId))
	if !exists(volume) {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", request.VolumeId)
	}
	if d.onNode(ctx, "mountpoint", "-q", request.TargetPath) == nil || d.devices[request.TargetPath] != nil {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	target, err := d.onMachine(request.TargetPath)
	if err != nil {
		return nil, err
	}
	source := volume
	if request.VolumeCapability.GetBlock() == nil {
		err = os.MkdirAll(target, 0o750)
	} else {
		err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o750), os.WriteFile(target, nil, 0o600))
		if err == nil {
			source, err = d.attach(filepath.Join(volume, deviceFile), request.TargetPath)
		}
	}
	if err != nil {
		return nil, err
	}
	mount := []string{"--bind", source}
	if inodes := request.VolumeContext[Inodes]; inodes != "" {
		mount = []string{"-t", "tmpfs", "-o", "mode=0755,nr_inodes=" + inodes, "tmpfs"}
	}
	if err := d.onNode(ctx, "mount", append(mount, request.TargetPath)...); err != nil {
		return nil, errors.Join(err, d.detach(request.TargetPath))
	}
	if request.Readonly {
		return &csi.NodePublishVolumeResponse{}, d.onNode(ctx, "mount", "-o", "remount,bind,ro", request.TargetPath)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume implements csi.NodeServer. It may be called again.
func (d *Driver) NodeUnpublishVolume(
	ctx context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	target, err := d.onMachine(request.TargetPath)
	if err != nil {
		return nil, err
	}
	// A device is a mount point too, although mountpoint only knows directories.
	if d.devices[request.TargetPath] != nil || d.onNode(ctx, "mountpoint", "-q", request.TargetPath) == nil {
		if err := d.onNode(ctx, "umount", request.TargetPath); err != nil {
			return nil, err
		}
	}
	if err := d.detach(request.TargetPath); err != nil {
		return nil, err
	}
	if err := os.Remove(target); !errors.Is(err, fs.ErrNotExist) {
		return &csi.NodeUnpublishVolumeResponse{}, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// onMachine returns the path on the machine of a path on the node.
func (d *Driver) onMachine(path string) (string, error) {
	below, err := filepath.Rel(kubelet, path)
	if err != nil || !filepath.IsLocal(below) {
		return "", status.Errorf(codes.InvalidArgument, "the target %q is not in %s", path, kubelet)
	}
	return filepath.Join(d.node.Node.Kubelet, below), nil
}

// onNode runs a program on the node.
func (d *Driver) onNode(ctx context.Context, program string, args ...string) error {
	if out, err := pods.OnNode(ctx, d.node, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// attach makes a block device from a file. It vanishes when no process has it open any more, however this process
// ends.
func (d *Driver) attach(file, target string) (string, error) {
	made, err := exec.Command("losetup", "--find", "--show", file).Output()
	if err != nil {
		return "", fmt.Errorf("make a block device of %s: %w", file, err)
	}
	device := strings.TrimSpace(string(made))
	opened, errOpen := os.Open(device)
	detached := exec.Command("losetup", "--detach", device).Run() // when it is closed
	if err := errors.Join(errOpen, detached); err != nil {
		return "", fmt.Errorf("make a block device of %s: %w", file, err)
	}
	d.devices[target] = opened
	return device, nil
}

// detach removes a block device, if there is one.
func (d *Driver) detach(target string) error {
	opened := d.devices[target]
	delete(d.devices, target)
	if opened == nil {
		return nil
	}
	return opened.Close()
}
