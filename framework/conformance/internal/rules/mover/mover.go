package mover

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
)

// rootFolder is the folder of all repositories of a test. It is below a folder that hosts know at the top of a bucket.
const rootFolder = "plugins/conformance/"

// password is that of all repositories.
const password = "conformance-password"

// mover is a DataMover with the location that the caller has given.
type mover struct {
	*suite.Subject
	client datamoverv1.DataMoverServiceClient
	dir    string // for volumes of one rule
}

// with adapts a check of a mover. The check has a directory for volumes.
func with(check func(context.Context, *mover) error) suite.Check {
	return func(ctx context.Context, s *suite.Subject) error {
		if err := s.NeedsService(ctx); err != nil {
			return err
		}
		if s.Config()["bucket"] == "" {
			return suite.Skip(`no config of a location, with the key "bucket", is given for it`)
		}
		dir, err := os.MkdirTemp("", "conformance-volumes-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		m := &mover{Subject: s, dir: dir}
		if err := m.connect(ctx); err != nil {
			return err
		}
		return check(ctx, m)
	}
}

func (m *mover) connect(ctx context.Context) error {
	conn, err := m.Conn(ctx)
	if err == nil {
		m.client = datamoverv1.NewDataMoverServiceClient(conn)
	}
	return err
}

// repository returns a repository that does not exist. The key "provider" of the caller's config is not one of the
// location.
func (m *mover) repository() *datamoverv1.Repository {
	config := map[string]string{"prefix": ""}
	maps.Copy(config, m.Config())
	provider := config["provider"]
	if provider == "" {
		provider = "cleat.dev/file"
	}
	delete(config, "provider")
	return &datamoverv1.Repository{
		Provider: provider, Config: config, Path: rootFolder + strings.ToLower(rand.Text()), Password: []byte(password),
	}
}

// shared is the result of creating the repository that rules share.
type shared struct {
	repository *datamoverv1.Repository
	err        error
}

// ready returns a repository that exists.
func (m *mover) ready(ctx context.Context) (*datamoverv1.Repository, error) {
	made := suite.Remembered(m.Subject, "repository", func() shared {
		repository := m.repository()
		_, err := m.check(ctx, &datamoverv1.CheckRequest{Repository: repository, Create: true})
		return shared{repository, err}
	})
	if made.err != nil {
		return nil, suite.Skip("it does not create a repository: %v", made.err)
	}
	return made.repository, nil
}

// readyWith returns a repository that exists, and a new volume with files.
func (m *mover) readyWith(
	ctx context.Context, files map[string]string,
) (*datamoverv1.Repository, *datamoverv1.Volume, error) {
	repository, err := m.ready(ctx)
	if err != nil {
		return nil, nil, err
	}
	volume, err := m.volume(files)
	return repository, volume, err
}

// volume returns a new directory with files, whose names may have slashes.
func (m *mover) volume(files map[string]string) (*datamoverv1.Volume, error) {
	dir, err := os.MkdirTemp(m.dir, "volume-")
	if err != nil {
		return nil, err
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return &datamoverv1.Volume{Path: dir}, nil
}

// has returns an error unless a volume has exactly these files.
func has(volume *datamoverv1.Volume, want map[string]string) error {
	got := map[string]string{}
	if err := filepath.WalkDir(volume.GetPath(), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(volume.GetPath(), path)
		got[filepath.ToSlash(name)] = string(content)
		return err
	}); err != nil {
		return err
	}
	for name, content := range want {
		if there, ok := got[name]; !ok {
			return fmt.Errorf("the volume has no file %.100q", name)
		} else if there != content {
			return fmt.Errorf("the file %.100q has %d bytes %.40q, want %d bytes %.40q", name, len(there), there, len(content),
				content)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			return fmt.Errorf("the volume has the file %.100q, which should not be there", name)
		}
	}
	return nil
}

// reply is what the messages of a call had.
type reply[R any] struct {
	progress []*datamoverv1.Progress
	results  []*R
	after    int // messages after the first result
}

// message is a message of a reply.
type message[A any] interface {
	*A
	GetProgress() *datamoverv1.Progress
}

// received makes a call and returns its messages.
func received[Q, A, R any, M message[A]](
	ctx context.Context, m *mover, call func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A],
		error), request *Q,
	resultOf func(M) *R,
) (got reply[R], err error) {
	err = m.Stream(ctx, func(ctx context.Context, moved func()) error {
		stream, err := call(ctx, request)
		if err != nil {
			return err
		}
		for {
			answer, err := stream.Recv()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			moved()
			if len(got.results) > 0 {
				got.after++
			}
			if progress := M(answer).GetProgress(); progress != nil {
				got.progress = append(got.progress, progress)
			}
			if result := resultOf(answer); result != nil {
				got.results = append(got.results, result)
			}
		}
	})
	return got, err
}

// last returns the result of a call, which is empty if there is none. Another rule checks that there is exactly one.
func (r reply[R]) last(err error) (*R, error) {
	if err != nil {
		return nil, err
	}
	if len(r.results) == 0 {
		return new(R), nil
	}
	return r.results[len(r.results)-1], nil
}

func (m *mover) backup(ctx context.Context, request *datamoverv1.BackupRequest) (*datamoverv1.BackupResult, error) {
	request.Plugin = m.Name
	if request.Key == "" {
		request.Key = rand.Text()
	}
	return result(ctx, m, "Backup", m.client.Backup, wire.WithUnknown(request), (*datamoverv1.BackupResponse).GetResult)
}

func (m *mover) restore(ctx context.Context, request *datamoverv1.RestoreRequest) error {
	request.Plugin = m.Name
	_, err := result(ctx, m, "Restore", m.client.Restore, wire.WithUnknown(request),
		(*datamoverv1.RestoreResponse).GetResult)
	return err
}

func (m *mover) forget(ctx context.Context, repository *datamoverv1.Repository, ids ...string) error {
	_, err := result(ctx, m, "Forget", m.client.Forget,
		&datamoverv1.ForgetRequest{Plugin: m.Name, Repository: repository, SnapshotIds: ids},
		(*datamoverv1.ForgetResponse).GetResult)
	return err
}

func (m *mover) maintain(ctx context.Context, repository *datamoverv1.Repository) error {
	_, err := result(ctx, m, "Maintain", m.client.Maintain,
		&datamoverv1.MaintainRequest{Plugin: m.Name, Repository: repository}, (*datamoverv1.MaintainResponse).GetResult)
	return err
}

func (m *mover) check(ctx context.Context, request *datamoverv1.CheckRequest) (*datamoverv1.CheckResult, error) {
	request.Plugin = m.Name
	return result(ctx, m, "Check", m.client.Check, wire.WithUnknown(request), (*datamoverv1.CheckResponse).GetResult)
}

// result makes a call and returns its result. The error names the call.
func result[Q, A, R any, M message[A]](
	ctx context.Context, m *mover, name string, call func(context.Context, *Q,
		...grpc.CallOption) (grpc.ServerStreamingClient[A], error), request *Q,
	resultOf func(M) *R,
) (*R, error) {
	got, err := received(ctx, m, call, request, resultOf)
	answer, err := got.last(err)
	if err != nil {
		return nil, fmt.Errorf("call of %s: %w", name, err)
	}
	return answer, nil
}

// stored backs up files and returns the id of the snapshot.
func (m *mover) stored(
	ctx context.Context, repository *datamoverv1.Repository, files map[string]string,
) (string, error) {
	volume, err := m.volume(files)
	if err != nil {
		return "", err
	}
	result, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume})
	return result.GetSnapshotId(), err
}

// comesBack restores a snapshot to an empty volume and checks what it has.
func (m *mover) comesBack(
	ctx context.Context, repository *datamoverv1.Repository, id string, want map[string]string,
) error {
	volume, err := m.volume(nil)
	if err != nil {
		return err
	}
	if err := m.restore(ctx, &datamoverv1.RestoreRequest{Repository: repository, SnapshotId: id,
		Volume: volume}); err != nil {
		return err
	}
	if err := has(volume, want); err != nil {
		return fmt.Errorf("after Restore of snapshot %q: %w", id, err)
	}
	return nil
}

// wants returns an error unless err has the code.
func wants(what string, err error, code codes.Code) error {
	if err == nil {
		return fmt.Errorf("%s is taken without an error, want %s", what, code)
	}
	if status.Code(err) != code {
		return fmt.Errorf("%s: the error has the code %s, want %s: %w", what, status.Code(err), code, err)
	}
	return nil
}
