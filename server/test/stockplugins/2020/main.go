// Command 2020 is a plugin as vendors built them in 2020: an object store in memory, a volume snapshotter, and actions
// of version 1.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/ioutil"
	"os"
	"sort"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/sirupsen/logrus"

	"example.org/stock/library"
)

func main() {
	library.NewServer("BackupItemAction", "VolumeSnapshotter", "ObjectStore", "RestoreItemAction").
		Register("ObjectStore", "velero.io/stock-2020", func(log logrus.FieldLogger) (interface{}, error) {
			return &store{log: log, objects: map[string][]byte{}}, nil
		}).
		Register("VolumeSnapshotter", "velero.io/stock-2020", func(log logrus.FieldLogger) (interface{}, error) {
			return &snapshotter{log: log}, nil
		}).
		Register("BackupItemAction", "velero.io/stock-2020-backup", func(log logrus.FieldLogger) (interface{}, error) {
			return backup{log}, nil
		}).
		Register("RestoreItemAction", "velero.io/stock-2020-restore", func(log logrus.FieldLogger) (interface{}, error) {
			return restore{log}, nil
		}).
		Serve()
}

type backup struct{ log logrus.FieldLogger }

func (backup) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return &library.AppliesToResponse{
		ResourceSelector: &library.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}},
	}, nil
}

func (b backup) Execute(in *library.ItemRequest) (*library.BackupItemResponse, error) {
	item, metadata, err := decode(in.Item)
	if err != nil {
		return nil, err
	}
	b.log.WithField("name", metadata["name"]).Warn("stock backup action runs")
	switch metadata["name"] {
	case "fails":
		return nil, errors.New("volume is busy")
	case "panics":
		panic("no volume")
	}
	metadata["annotations"] = map[string]interface{}{"stock": "2020"}
	encoded, err := json.Marshal(item)
	return &library.BackupItemResponse{Item: encoded, AdditionalItems: []*library.ResourceIdentifier{
		{Resource: "persistentvolumes", Name: "pv-1"},
	}}, err
}

type restore struct{ log logrus.FieldLogger }

func (restore) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return &library.AppliesToResponse{}, nil // everything
}

func (r restore) Execute(in *library.RestoreItemRequest) (*library.RestoreItemResponse, error) {
	_, metadata, err := decode(in.ItemFromBackup)
	if err != nil {
		return nil, err
	}
	r.log.WithField("name", metadata["name"]).Info("stock restore action runs")
	return &library.RestoreItemResponse{Item: in.Item, SkipRestore: metadata["name"] == "skipped"}, nil
}

func decode(raw []byte) (item, metadata map[string]interface{}, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&item); err != nil {
		return nil, nil, errors.WithStack(err)
	}
	metadata, _ = item["metadata"].(map[string]interface{})
	return item, metadata, nil
}

// store keeps objects in memory.
type store struct {
	log    logrus.FieldLogger
	bucket string

	mu      sync.Mutex
	objects map[string][]byte
}

func (s *store) Init(in *library.InitRequest) (*library.Empty, error) {
	for key := range in.Config {
		if key != "bucket" && key != "prefix" && key != "region" {
			return nil, errors.Errorf("config has invalid key %s; valid keys are bucket, prefix, region", key)
		}
	}
	s.bucket = in.Config["bucket"]
	s.log.WithField("bucket", s.bucket).Info("stock store opened")
	return &library.Empty{}, nil
}

func (s *store) check(bucket string) error {
	if s.bucket == "" || bucket != s.bucket {
		return errors.Errorf("no bucket %q", bucket)
	}
	return nil
}

func (s *store) PutObject(bucket, key string, body io.Reader) error {
	if err := s.check(bucket); err != nil {
		return err
	}
	content, err := ioutil.ReadAll(body)
	if err != nil {
		return errors.WithStack(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = content
	return nil
}

func (s *store) GetObject(_, key string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[key]
	if !ok {
		return nil, errors.Errorf("no object %s", key)
	}
	return ioutil.NopCloser(bytes.NewReader(content)), nil
}

func (s *store) ObjectExists(in *library.ObjectRequest) (*library.ObjectExistsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[in.Key]
	return &library.ObjectExistsResponse{Exists: ok}, nil
}

func (s *store) DeleteObject(in *library.ObjectRequest) (*library.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, in.Key)
	return &library.Empty{}, nil
}

func (s *store) ListObjects(in *library.ObjectRequest) (*library.NamesResponse, error) {
	return &library.NamesResponse{Names: s.list(in.Key, "")}, nil
}

func (s *store) ListCommonPrefixes(in *library.ListCommonPrefixesRequest) (*library.NamesResponse, error) {
	return &library.NamesResponse{Names: s.list(in.Prefix, in.Delimiter)}, nil
}

func (s *store) list(prefix, delimiter string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]bool{}
	for key := range s.objects {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if delimiter == "" {
			found[key] = true
		} else if at := strings.Index(key[len(prefix):], delimiter); at >= 0 {
			found[key[:len(prefix)+at+len(delimiter)]] = true
		}
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (s *store) CreateSignedURL(in *library.CreateSignedURLRequest) (*library.TextResponse, error) {
	return &library.TextResponse{Text: fmt.Sprintf("memory://%d/%s/%s?ttl=%d", os.Getpid(), in.Bucket, in.Key, in.TTL)},
		nil
}

// snapshotter derives the ids of snapshots from those of their volumes.
type snapshotter struct {
	log    logrus.FieldLogger
	region string
}

func (s *snapshotter) Init(in *library.InitRequest) (*library.Empty, error) {
	for key := range in.Config {
		if key != "region" {
			return nil, errors.Errorf("config has invalid key %s; the only valid key is region", key)
		}
	}
	s.region = in.Config["region"]
	return &library.Empty{}, nil
}

func (s *snapshotter) CreateVolumeFromSnapshot(in *library.CreateVolumeRequest) (*library.TextResponse, error) {
	return &library.TextResponse{Text: fmt.Sprintf("%s-%s-%s-%d", in.SnapshotID, in.VolumeType, in.VolumeAZ, in.Iops)}, nil
}

func (s *snapshotter) GetVolumeInfo(*library.VolumeRequest) (*library.GetVolumeInfoResponse, error) {
	return &library.GetVolumeInfoResponse{VolumeType: "ssd", Iops: 300}, nil
}

func (s *snapshotter) CreateSnapshot(in *library.VolumeRequest) (*library.TextResponse, error) {
	if s.region == "" {
		return nil, errors.New("not initialised")
	}
	s.log.WithField("volume", in.VolumeID).Info("stock snapshotter runs")
	return &library.TextResponse{Text: in.VolumeID + "@" + in.Tags["backup"]}, nil
}

func (s *snapshotter) DeleteSnapshot(*library.VolumeRequest) (*library.Empty, error) {
	return &library.Empty{}, nil
}

func (s *snapshotter) GetVolumeID(in *library.PersistentVolumeRequest) (*library.TextResponse, error) {
	volume, metadata, err := decode(in.PersistentVolume)
	if err != nil {
		return nil, err
	}
	annotations, _ := metadata["annotations"].(map[string]interface{})
	spec, _ := volume["spec"].(map[string]interface{})
	switch {
	case annotations["volume"] != nil:
		return &library.TextResponse{Text: fmt.Sprint(annotations["volume"])}, nil
	case metadata["name"] == nil, spec["nfs"] != nil:
		return &library.TextResponse{}, nil // not a supported volume
	}
	return &library.TextResponse{Text: fmt.Sprintf("vol-%v", metadata["name"])}, nil
}

func (s *snapshotter) SetVolumeID(in *library.PersistentVolumeRequest) (*library.PersistentVolumeResponse, error) {
	volume, metadata, err := decode(in.PersistentVolume)
	if err != nil {
		return nil, err
	}
	metadata["annotations"] = map[string]interface{}{"volume": in.VolumeID}
	encoded, err := json.Marshal(volume)
	return &library.PersistentVolumeResponse{PersistentVolume: encoded}, err
}
