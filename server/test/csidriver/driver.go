package csidriver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// Name is the name of the driver in Kubernetes.
const Name = "directories.cleat.dev"

// Driver is a CSI driver whose volumes are directories. The zero value with a Dir is ready to use.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedGroupControllerServer
	csi.UnimplementedNodeServer

	// Dir holds the directories volumes and snapshots, which Serve creates.
	Dir string

	node    *controlplane.Cluster // with the node of ServeNode
	writing sync.Mutex            // held by a group snapshot, and by Write
	mu      sync.Mutex
	devices map[string]*os.File // published devices, by target
}

// Serve serves the driver on a socket until stop is called.
func (d *Driver) Serve(socket string) (stop func(), err error) {
	for _, dir := range []string{d.volumes(), d.snapshots()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return serve(socket, func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, d)
		csi.RegisterControllerServer(server, d)
		csi.RegisterGroupControllerServer(server, d)
	})
}

func serve(socket string, register func(*grpc.Server)) (stop func(), err error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serve the CSI driver: %w", err)
	}
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	return server.Stop, nil
}

func (d *Driver) volumes() string   { return filepath.Join(d.Dir, "volumes") }
func (d *Driver) snapshots() string { return filepath.Join(d.Dir, "snapshots") }

// Volume returns the directory of a volume.
func (d *Driver) Volume(id string) string { return filepath.Join(d.volumes(), id) }

// Snapshots returns the ids of the snapshots, sorted.
func (d *Driver) Snapshots() ([]string, error) {
	entries, err := os.ReadDir(d.snapshots())
	var ids []string
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == "" {
			ids = append(ids, entry.Name())
		}
	}
	return ids, err
}

// GetPluginInfo implements csi.IdentityServer.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (d *Driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	response := &csi.GetPluginCapabilitiesResponse{}
	for _, has := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
	} {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: has}},
		})
	}
	return response, nil
}

// Probe implements csi.IdentityServer.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (d *Driver) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, can := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: can}},
		})
	}
	return response, nil
}

// ValidateVolumeCapabilities implements csi.ControllerServer.
func (d *Driver) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: request.VolumeCapabilities,
	}}, nil
}
