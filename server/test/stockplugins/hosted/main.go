// Command hosted is a plugin like those of vendors for hosted control planes. It relies on a process per run: the first
// item of a run determines which control plane the run is about, and is noted in the implementation, as is the snapshot
// that was taken of it. HOSTED_DIR has a file for each snapshot, and one for each process.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/ioutil"
	"os"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"
	"github.com/sirupsen/logrus"

	"example.org/stock/library"
)

func main() {
	library.NewServer("BackupItemAction", "VolumeSnapshotter", "ObjectStore", "RestoreItemAction", "DeleteItemAction").
		Register("BackupItemAction", "velero.io/stock-hosted", newBackup).
		Register("RestoreItemAction", "velero.io/stock-hosted", newRestore).
		Register("DeleteItemAction", "velero.io/stock-hosted", newRemoval).
		Serve()
}

// run has what is noted about the control plane of a run.
type run struct {
	mu    sync.Mutex
	plane string // its namespace
	url   string // of its snapshot
}

// note returns the notes, which the first item makes. what names the snapshot.
func (r *run) note(item []byte, what string) (plane, url string, err error) {
	var object struct{ Metadata struct{ Namespace string } }
	if err := json.Unmarshal(item, &object); err != nil {
		return "", "", errors.WithStack(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plane == "" {
		file, err := ioutil.TempFile(os.Getenv("HOSTED_DIR"), what+"."+object.Metadata.Namespace+".")
		if err != nil {
			return "", "", errors.WithStack(err)
		}
		r.plane, r.url = object.Metadata.Namespace, filepath.Base(file.Name())
		if _, err := fmt.Fprint(file, os.Getpid()); err != nil {
			return "", "", errors.WithStack(err)
		}
		if err := file.Close(); err != nil {
			return "", "", errors.WithStack(err)
		}
	}
	return r.plane, r.url, nil
}

// annotated returns an item with an annotation for the one of the test, which has the value TAKEN.
func annotated(item []byte, url string) []byte {
	return bytes.Replace(item, []byte(`"hosted":"TAKEN"`), []byte(fmt.Sprintf(`"hosted":%q`, url)), -1)
}

func configMaps() (*library.AppliesToResponse, error) {
	return &library.AppliesToResponse{ResourceSelector: &library.ResourceSelector{
		IncludedResources: []string{"configmaps"}, Selector: "hosted=yes"}}, nil
}

type backup struct {
	log logrus.FieldLogger
	run
}

func newBackup(log logrus.FieldLogger) (interface{}, error) { return &backup{log: log}, nil }

func (b *backup) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return configMaps()
}

func (b *backup) Execute(in *library.ItemRequest) (*library.BackupItemResponse, error) {
	plane, url, err := b.note(in.Item, "snapshot")
	if err != nil {
		return nil, err
	}
	b.log.Infof("the control plane is %s", plane)
	return &library.BackupItemResponse{Item: annotated(in.Item, url)}, nil
}

type restore struct{ run }

func newRestore(logrus.FieldLogger) (interface{}, error) { return &restore{}, nil }

func (r *restore) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return configMaps()
}

func (r *restore) Execute(in *library.RestoreItemRequest) (*library.RestoreItemResponse, error) {
	_, _, err := r.note(in.Item, "restored")
	return &library.RestoreItemResponse{Item: in.Item}, err
}

type removal struct{ run }

func newRemoval(logrus.FieldLogger) (interface{}, error) { return &removal{}, nil }

func (r *removal) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return configMaps()
}

func (r *removal) Execute(in *library.ItemRequest) (*library.Empty, error) {
	_, _, err := r.note(in.Item, "removed")
	return &library.Empty{}, err
}
