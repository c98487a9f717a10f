// Command tape is an object store that Velero tolerates: a variable of the environment names the directory of its
// objects, it lists common prefixes by their bare names, and it cannot sign URLs.
package main

import (
	"io"
	"io/ioutil"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/pkg/errors"
	"github.com/sirupsen/logrus"

	"example.org/stock/library"
)

func main() {
	library.NewServer("BackupItemAction", "VolumeSnapshotter", "ObjectStore", "RestoreItemAction").
		Register("ObjectStore", "velero.io/stock-tape", func(log logrus.FieldLogger) (interface{}, error) {
			return &store{log: log}, nil
		}).
		Serve()
}

// store keeps objects as files.
type store struct {
	log  logrus.FieldLogger
	root string
}

func (s *store) Init(*library.InitRequest) (*library.Empty, error) {
	s.root = os.Getenv("TAPE_ROOT")
	if s.root == "" {
		s.root = filepath.Join(os.TempDir(), "tape") // without a warning
	}
	s.log.WithField("root", s.root).Info("tape store opened")
	return &library.Empty{}, nil
}

func (s *store) path(bucket, key string) string {
	return filepath.Join(s.root, bucket, filepath.FromSlash(key))
}

func (s *store) PutObject(bucket, key string, body io.Reader) error {
	content, err := ioutil.ReadAll(body)
	if err != nil {
		return errors.WithStack(err)
	}
	path := s.path(bucket, key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(ioutil.WriteFile(path, content, 0o644))
}

func (s *store) GetObject(bucket, key string) (io.ReadCloser, error) {
	file, err := os.Open(s.path(bucket, key))
	return file, errors.WithStack(err)
}

func (s *store) ObjectExists(in *library.ObjectRequest) (*library.ObjectExistsResponse, error) {
	_, err := os.Stat(s.path(in.Bucket, in.Key))
	if os.IsNotExist(err) {
		return &library.ObjectExistsResponse{}, nil
	}
	return &library.ObjectExistsResponse{Exists: err == nil}, errors.WithStack(err)
}

func (s *store) DeleteObject(in *library.ObjectRequest) (*library.Empty, error) {
	err := os.Remove(s.path(in.Bucket, in.Key))
	if os.IsNotExist(err) {
		err = nil
	}
	return &library.Empty{}, errors.WithStack(err)
}

func (s *store) keys(bucket, prefix string) ([]string, error) {
	var keys []string
	root := filepath.Join(s.root, bucket)
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || info.IsDir() {
			return err
		}
		key, err := filepath.Rel(root, path)
		if key = filepath.ToSlash(key); strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return err
	})
	sort.Strings(keys)
	return keys, errors.WithStack(err)
}

func (s *store) ListObjects(in *library.ObjectRequest) (*library.NamesResponse, error) {
	keys, err := s.keys(in.Bucket, in.Key)
	return &library.NamesResponse{Names: keys}, err
}

// ListCommonPrefixes returns the bare names of folders, with neither the prefix nor the delimiter.
func (s *store) ListCommonPrefixes(in *library.ListCommonPrefixesRequest) (*library.NamesResponse, error) {
	keys, err := s.keys(in.Bucket, in.Prefix)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		parts := strings.SplitN(strings.TrimPrefix(key, in.Prefix), in.Delimiter, 2)
		if len(parts) == 2 && (len(names) == 0 || names[len(names)-1] != parts[0]) {
			names = append(names, parts[0])
		}
	}
	return &library.NamesResponse{Names: names}, nil
}

func (s *store) CreateSignedURL(*library.CreateSignedURLRequest) (*library.TextResponse, error) {
	return nil, errors.New("a tape has no URLs")
}
