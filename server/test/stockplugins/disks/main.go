// Command disks is a volume snapshotter like those of vendors. Its storage system is a directory: disks and snapshots
// are files. The names of some disks select a fault.
package main

import (
	"encoding/json"
	"fmt"
	"io/ioutil"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/sirupsen/logrus"

	"example.org/stock/library"
)

// driver is the CSI driver whose volumes are disks.
const driver = "disks.example.com"

func main() {
	library.NewServer("BackupItemAction", "VolumeSnapshotter", "ObjectStore", "RestoreItemAction").
		Register("VolumeSnapshotter", "velero.io/stock-disks", func(log logrus.FieldLogger) (interface{}, error) {
			return &disks{log: log}, nil
		}).
		Serve()
}

type disks struct {
	log logrus.FieldLogger
	dir string
}

func (d *disks) Init(in *library.InitRequest) (*library.Empty, error) {
	d.dir = in.Config["dir"]
	if path := in.Config["credentialsFile"]; path != "" {
		content, err := ioutil.ReadFile(path)
		if err != nil || string(content) != "open sesame" {
			return nil, errors.Errorf("the credentials are not those of the disks: %s, %v", content, err)
		}
	}
	return &library.Empty{}, nil
}

// snapshot is the content of the file of a snapshot.
type snapshot struct {
	Disk, Zone string
	Tags       map[string]string
}

func (d *disks) CreateSnapshot(in *library.VolumeRequest) (*library.TextResponse, error) {
	id := fmt.Sprintf("snap-%s-%d", in.VolumeID, time.Now().UnixNano())
	switch strings.SplitN(in.VolumeID, ".", 2)[0] {
	case "refused":
		return nil, errors.New("the disk is busy")
	case "hangs": // like a snapshotter that waits for a snapshot which never gets ready
		select {}
	case "dies":
		os.Exit(3)
	case "nameless":
		return &library.TextResponse{}, nil
	case "held":
		if err := d.write("snapshots", id, snapshot{Disk: in.VolumeID, Zone: in.VolumeAZ, Tags: in.Tags}); err != nil {
			return nil, err
		}
		d.wait("hold")
		return &library.TextResponse{Text: id}, nil
	}
	return &library.TextResponse{Text: id}, d.write("snapshots", id, snapshot{Disk: in.VolumeID, Zone: in.VolumeAZ,
		Tags: in.Tags})
}

// wait returns when there is no file of that name.
func (d *disks) wait(name string) {
	for {
		if _, err := os.Stat(filepath.Join(d.dir, name)); os.IsNotExist(err) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (d *disks) write(kind, id string, value interface{}) error {
	content, err := json.Marshal(value)
	if err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(ioutil.WriteFile(filepath.Join(d.dir, kind, id), content, 0o644))
}

func (d *disks) DeleteSnapshot(in *library.VolumeRequest) (*library.Empty, error) {
	if _, err := os.Stat(filepath.Join(d.dir, "locked")); err == nil {
		return nil, errors.New("the disks are locked")
	}
	err := os.Remove(filepath.Join(d.dir, "snapshots", in.VolumeID))
	if os.IsNotExist(err) {
		err = nil
	}
	return &library.Empty{}, errors.WithStack(err)
}

func (d *disks) CreateVolumeFromSnapshot(in *library.CreateVolumeRequest) (*library.TextResponse, error) {
	if _, err := os.Stat(filepath.Join(d.dir, "snapshots", in.SnapshotID)); err != nil {
		return nil, errors.Errorf("there is no snapshot %s", in.SnapshotID)
	}
	id := fmt.Sprintf("new-%d", time.Now().UnixNano())
	return &library.TextResponse{Text: id}, d.write("disks", id, in)
}

func (d *disks) GetVolumeInfo(*library.VolumeRequest) (*library.GetVolumeInfoResponse, error) {
	return &library.GetVolumeInfoResponse{VolumeType: "ssd", Iops: 300}, nil
}

func (d *disks) GetVolumeID(in *library.PersistentVolumeRequest) (*library.TextResponse, error) {
	_, csi, err := decode(in.PersistentVolume)
	if err != nil || csi["driver"] != driver {
		return &library.TextResponse{}, err
	}
	id := fmt.Sprint(csi["volumeHandle"])
	if strings.HasPrefix(id, "unknown") {
		return nil, errors.New("the disks do not answer")
	}
	return &library.TextResponse{Text: id}, nil
}

func (d *disks) SetVolumeID(in *library.PersistentVolumeRequest) (*library.PersistentVolumeResponse, error) {
	volume, csi, err := decode(in.PersistentVolume)
	if err != nil {
		return nil, err
	}
	d.wait("hold-references")
	csi["volumeHandle"] = in.VolumeID
	encoded, err := json.Marshal(volume)
	return &library.PersistentVolumeResponse{PersistentVolume: encoded}, errors.WithStack(err)
}

func decode(raw []byte) (volume, csi map[string]interface{}, err error) {
	if err := json.Unmarshal(raw, &volume); err != nil {
		return nil, nil, errors.WithStack(err)
	}
	spec, _ := volume["spec"].(map[string]interface{})
	csi, _ = spec["csi"].(map[string]interface{})
	return volume, csi, nil
}
