package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cleat-dev/cleat/proto/velero/shared"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// san is a VolumeSnapshotter of one volume.
type san struct {
	init     func(config map[string]string) error
	volumeID func(volume []byte) (string, error)
	set      func(volume []byte, id string) ([]byte, error)
	info     func(id string) (iops int64, err error)
	snapshot func(id string) (string, error)
	remove   func(id string) error
}

const driver = "csi.example.com"

// handleOf returns the part of a volume that holds its ID, or nil for a volume of another storage system.
func handleOf(volume map[string]any) (csi map[string]any) {
	spec, _ := volume["spec"].(map[string]any)
	csi, _ = spec["csi"].(map[string]any)
	if csi["driver"] != driver {
		return nil
	}
	return csi
}

func goodSAN() *san {
	return &san{
		init: func(config map[string]string) error {
			for key := range config {
				if key != "region" {
					return fmt.Errorf("unknown key %q", key)
				}
			}
			if config["region"] == "" {
				return errors.New("no region")
			}
			return nil
		},
		volumeID: func(raw []byte) (string, error) {
			volume, err := object(raw)
			if err != nil {
				return "", err
			}
			id, _ := handleOf(volume)["volumeHandle"].(string)
			return id, nil
		},
		set: func(raw []byte, id string) ([]byte, error) {
			volume, err := object(raw)
			if err != nil {
				return nil, err
			}
			csi := handleOf(volume)
			if csi == nil {
				return nil, errors.New("not a volume of ours")
			}
			csi["volumeHandle"] = id
			return encode(volume), nil
		},
		info: func(id string) (int64, error) {
			if id != "vol-1" {
				return 0, fmt.Errorf("no volume %q", id)
			}
			return 300, nil
		},
		snapshot: func(id string) (string, error) { return "snap-of-" + id, nil },
		remove:   func(string) error { return nil },
	}
}

type sanServer struct {
	volumesnapshotterv1.UnimplementedVolumeSnapshotterServer
	san *san
}

func (s sanServer) Init(
	_ context.Context, req *volumesnapshotterv1.VolumeSnapshotterInitRequest,
) (*shared.Empty, error) {
	return &shared.Empty{}, s.san.init(req.GetConfig())
}

func (s sanServer) GetVolumeID(
	_ context.Context, req *volumesnapshotterv1.GetVolumeIDRequest,
) (*volumesnapshotterv1.GetVolumeIDResponse, error) {
	id, err := s.san.volumeID(req.GetPersistentVolume())
	return &volumesnapshotterv1.GetVolumeIDResponse{VolumeID: id}, err
}

func (s sanServer) SetVolumeID(
	_ context.Context, req *volumesnapshotterv1.SetVolumeIDRequest,
) (*volumesnapshotterv1.SetVolumeIDResponse, error) {
	volume, err := s.san.set(req.GetPersistentVolume(), req.GetVolumeID())
	return &volumesnapshotterv1.SetVolumeIDResponse{PersistentVolume: volume}, err
}

func (s sanServer) GetVolumeInfo(
	_ context.Context, req *volumesnapshotterv1.GetVolumeInfoRequest,
) (*volumesnapshotterv1.GetVolumeInfoResponse, error) {
	iops, err := s.san.info(req.GetVolumeID())
	return &volumesnapshotterv1.GetVolumeInfoResponse{VolumeType: "fast", Iops: iops}, err
}

func (s sanServer) CreateSnapshot(
	_ context.Context, req *volumesnapshotterv1.CreateSnapshotRequest,
) (*volumesnapshotterv1.CreateSnapshotResponse, error) {
	id, err := s.san.snapshot(req.GetVolumeID())
	return &volumesnapshotterv1.CreateSnapshotResponse{SnapshotID: id}, err
}

func (s sanServer) DeleteSnapshot(
	_ context.Context, req *volumesnapshotterv1.DeleteSnapshotRequest,
) (*shared.Empty, error) {
	return &shared.Empty{}, s.san.remove(req.GetSnapshotID())
}

func snapshotterDefects() map[string]defect {
	plant := func(change func(*san)) defect {
		return defect{kind: "VolumeSnapshotter", plant: func(p *program) { change(p.san) }}
	}
	return map[string]defect{
		"snapshotter-before-init": plant(func(s *san) {
			good, goodID, ready := s.init, s.volumeID, false
			s.init = func(config map[string]string) error { ready = true; return good(config) }
			s.volumeID = func(volume []byte) (string, error) {
				if !ready && len(volume) > 0 {
					os.Exit(1)
				}
				return goodID(volume)
			}
		}),
		"snapshotter-config-missing": plant(func(s *san) {
			good := s.init
			s.init = func(config map[string]string) error {
				if len(config) == 0 {
					os.Exit(1)
				}
				return good(config)
			}
		}),
		"snapshotter-config-unknown": plant(func(s *san) {
			s.init = func(config map[string]string) error {
				if config["region"] == "" {
					return errors.New("no region")
				}
				return nil
			}
		}),
		"snapshotter-init": plant(
			func(s *san) { s.init = func(map[string]string) error { return errors.New("never") } },
		),
		"snapshotter-foreign/error": plant(
			func(s *san) { s.volumeID = onForeign(s.volumeID, "", errors.New("what is that?")) },
		),
		"snapshotter-foreign/taken": plant(func(s *san) { s.volumeID = onForeign(s.volumeID, "mine", nil) }),
		"snapshotter-set-get/same": plant(func(s *san) {
			s.set = func(raw []byte, _ string) ([]byte, error) { return raw, nil }
		}),
		"snapshotter-set-get/renamed": plant(func(s *san) {
			good := s.set
			s.set = func(raw []byte, id string) ([]byte, error) {
				raw, err := good(raw, id)
				if err != nil {
					return nil, err
				}
				volume, err := object(raw)
				if err != nil {
					return nil, err
				}
				if metadata, ok := volume["metadata"].(map[string]any); ok {
					metadata["name"] = id
				}
				return encode(volume), nil
			}
		}),
		"snapshotter-json-kept": plant(func(s *san) {
			good := s.set
			s.set = func(raw []byte, id string) ([]byte, error) {
				volume, err := object(raw)
				if err != nil {
					return nil, err
				}
				delete(volume, "conformanceUnknown")
				return good(encode(volume), id)
			}
		}),
		"snapshotter-garbage/crash": plant(func(s *san) {
			good := s.set
			s.set = func(raw []byte, id string) ([]byte, error) {
				if string(raw) == "[]" {
					os.Exit(1)
				}
				return good(raw, id)
			}
		}),
		"snapshotter-garbage/made up": plant(func(s *san) {
			good := s.volumeID
			s.volumeID = func(raw []byte) (string, error) {
				if string(raw) == "null" {
					return "made-up", nil
				}
				return good(raw)
			}
		}),
		"snapshotter-unknown-volume":    plant(func(s *san) { s.info = onUnknown(s.info) }),
		"snapshotter-snapshot/no id":    plant(func(s *san) { s.snapshot = func(string) (string, error) { return "", nil } }),
		"snapshotter-snapshot/negative": plant(func(s *san) { s.info = func(string) (int64, error) { return -1, nil } }),
		"snapshotter-delete-again": plant(func(s *san) {
			gone := map[string]bool{}
			s.remove = func(id string) error {
				if gone[id] {
					return errors.New("it is gone")
				}
				gone[id] = true
				return nil
			}
			taken := 0
			s.snapshot = func(id string) (string, error) { taken++; return fmt.Sprintf("snap-%d-of-%s", taken, id), nil }
		}),
	}
}

// onForeign is a defect in the answer about a volume of another storage system.
func onForeign(good func([]byte) (string, error), id string, refused error) func([]byte) (string, error) {
	return func(raw []byte) (string, error) {
		if volume, err := object(raw); err == nil && volume["kind"] != nil && handleOf(volume) == nil {
			return id, refused
		}
		return good(raw)
	}
}

// onUnknown is a defect that shows with a volume that does not exist.
func onUnknown(good func(string) (int64, error)) func(string) (int64, error) {
	return func(id string) (int64, error) {
		if id != "vol-1" {
			os.Exit(1)
		}
		return good(id)
	}
}
