package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
)

// mover is a DataMover whose repositories are directories, with a directory for each snapshot.
type mover struct {
	flaw string // the rule that it breaks; empty for none

	mu     sync.Mutex
	stored map[string]string // snapshots by directory, of a mover that forgets at its end
	last   string            // the snapshot stored last
	atOnce sync.WaitGroup    // of the Backups that are made at once
}

type moverServer struct {
	datamoverv1.UnimplementedDataMoverServiceServer
	m *mover
}

func (m *mover) has(flaw string) bool { return m.flaw == flaw }

// folder returns the directory of a repository.
func (m *mover) folder(plugin string, r *datamoverv1.Repository) (string, error) {
	if plugin != pluginName {
		return "", status.Errorf(codes.NotFound, "no plugin %q here", plugin)
	}
	if r.GetPath() == "" || r.GetConfig()["path"] == "" {
		return "", status.Error(codes.InvalidArgument, "the repository has no path")
	}
	return filepath.Join(r.GetConfig()["path"], r.GetConfig()["bucket"], r.GetPath()), nil
}

// open returns the directory of a repository that exists.
func (m *mover) open(plugin string, r *datamoverv1.Repository) (string, error) {
	folder, err := m.folder(plugin, r)
	if err != nil {
		return "", err
	}
	password, err := os.ReadFile(filepath.Join(folder, "password"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && m.has("mover-missing/creates"):
		return folder, m.create(folder, r)
	case errors.Is(err, fs.ErrNotExist) && m.has("mover-missing/code"):
		return "", errors.New("no repository")
	case errors.Is(err, fs.ErrNotExist):
		return "", status.Error(codes.NotFound, "there is no repository")
	case err != nil:
		return "", err
	case string(password) != string(r.GetPassword()) && m.has("mover-password/says"):
		return "", status.Errorf(codes.InvalidArgument, "%q is the wrong password", r.GetPassword())
	case string(password) != string(r.GetPassword()) && !m.has("mover-password/takes"):
		return "", status.Error(codes.InvalidArgument, "wrong password")
	}
	return folder, nil
}

func (m *mover) create(folder string, r *datamoverv1.Repository) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "password"), r.GetPassword(), 0o600)
}

func (s moverServer) Check(
	req *datamoverv1.CheckRequest, stream grpc.ServerStreamingServer[datamoverv1.CheckResponse],
) error {
	folder, err := s.m.open(req.GetPlugin(), req.GetRepository())
	created := status.Code(err) == codes.NotFound && req.GetCreate()
	if created {
		if folder, err = s.m.folder(req.GetPlugin(), req.GetRepository()); err == nil {
			err = s.m.create(folder, req.GetRepository())
		}
	}
	if err != nil {
		return err
	}
	if s.m.has("mover-create/always") {
		created = req.GetCreate()
	}
	result := &datamoverv1.CheckResult{Created: created}
	for setting := range req.GetSettings() {
		if !s.m.has("mover-settings/check") {
			result.Warnings = append(result.Warnings, fmt.Sprintf("the setting %q is not known", setting))
		}
	}
	return stream.Send(&datamoverv1.CheckResponse{Part: &datamoverv1.CheckResponse_Result{Result: result}})
}

func (s moverServer) Backup(
	req *datamoverv1.BackupRequest, stream grpc.ServerStreamingServer[datamoverv1.BackupResponse],
) error {
	folder, err := s.m.open(req.GetPlugin(), req.GetRepository())
	if err != nil {
		return err
	}
	progress := &datamoverv1.Progress{Activity: "copying"}
	if s.m.has("mover-messages/negative") {
		progress.TotalBytes = -1
	}
	if s.m.has("mover-messages/activity") {
		progress.Activity = "two\nlines"
	}
	if err := stream.Send(&datamoverv1.BackupResponse{
		Part: &datamoverv1.BackupResponse_Progress{Progress: progress},
	}); err != nil {
		return err
	}
	result, err := s.m.store(folder, req)
	if err != nil {
		return err
	}
	if err := stream.Context().Err(); err != nil && !s.m.has("mover-cancelled") {
		return err
	}
	if s.m.has("mover-messages/twice") {
		_ = stream.Send(&datamoverv1.BackupResponse{Part: &datamoverv1.BackupResponse_Result{Result: result}})
	}
	return stream.Send(&datamoverv1.BackupResponse{Part: &datamoverv1.BackupResponse_Result{Result: result}})
}

// store copies a volume into a snapshot.
func (m *mover) store(folder string, req *datamoverv1.BackupRequest) (*datamoverv1.BackupResult, error) {
	if _, err := os.Stat(filepath.Join(folder, req.GetParent())); err != nil && m.has("mover-parent-unknown") {
		return nil, fmt.Errorf("no parent %q", req.GetParent())
	}
	sum := sha256.Sum256([]byte(req.GetKey()))
	id := hex.EncodeToString(sum[:8])
	if _, err := os.Stat(filepath.Join(folder, req.GetParent())); err == nil && m.has("mover-snapshots") &&
		req.GetParent() != "" {
		id = req.GetParent()
	}
	if m.has("mover-again") && req.GetKey() == "again" {
		id += fmt.Sprint(os.Getpid(), len(m.stored))
		m.remember(id)
	}
	snapshot := filepath.Join(folder, id)
	result := &datamoverv1.BackupResult{SnapshotId: id}
	for setting := range req.GetSettings() {
		if !m.has("mover-settings/backup") {
			result.Warnings = append(result.Warnings, fmt.Sprintf("the setting %q is not known", setting))
		}
	}
	if m.has("mover-messages/id") && req.GetKey() == "messages" {
		result.SnapshotId = "two\nlines"
		snapshot = filepath.Join(folder, result.SnapshotId)
	}
	if _, err := os.Stat(snapshot); err == nil && req.GetAgain() {
		return result, nil
	}
	if m.has("mover-cancelled") && req.GetKey() == "cancelled" && !req.GetAgain() {
		// what is there when it is cancelled counts as complete
		return result, os.MkdirAll(snapshot, 0o750)
	}
	beside := filepath.Join(req.GetVolume().GetPath(), "beside")
	if _, err := os.Stat(beside); err == nil && m.has("mover-maintain-beside") {
		return nil, errors.New("the repository is maintained")
	}
	part, err := os.MkdirTemp(folder, ".part-")
	if err != nil {
		return nil, err
	}
	from := req.GetVolume().GetPath()
	m.mu.Lock()
	if m.has("mover-full") && req.GetFull() {
		from = m.last
	}
	m.mu.Unlock()
	bytes, err := m.copy(from, part)
	if err == nil && os.Rename(part, snapshot) != nil { // another attempt was faster
		err = os.RemoveAll(part)
	}
	result.Bytes, result.NewBytes = bytes, bytes
	if m.has("mover-empty") && bytes == 0 {
		err = errors.New("the volume is empty")
	}
	if m.has("mover-restart") {
		m.remember(snapshot)
	}
	m.mu.Lock()
	m.last = snapshot
	m.mu.Unlock()
	if _, err := os.Stat(filepath.Join(snapshot, "which")); err == nil && m.has("mover-concurrent") {
		m.atOnce.Done()
		m.atOnce.Wait() // so that each of them restores the same
	}
	return result, err
}

func (m *mover) remember(snapshot string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stored == nil {
		m.stored = map[string]string{}
	}
	m.stored[snapshot] = snapshot
}

func (s moverServer) Restore(
	req *datamoverv1.RestoreRequest, stream grpc.ServerStreamingServer[datamoverv1.RestoreResponse],
) error {
	folder, err := s.m.open(req.GetPlugin(), req.GetRepository())
	if err != nil {
		return err
	}
	snapshot := filepath.Join(folder, req.GetSnapshotId())
	_, err = os.Stat(snapshot)
	missing := err != nil || filepath.Dir(snapshot) != folder
	s.m.mu.Lock()
	if s.m.has("mover-restart") && s.m.stored[snapshot] == "" {
		missing = true
	}
	latest := s.m.last
	s.m.mu.Unlock()
	switch {
	case missing && s.m.has("mover-unknown-snapshot/nothing"):
		return stream.Send(&datamoverv1.RestoreResponse{
			Part: &datamoverv1.RestoreResponse_Result{Result: &datamoverv1.RestoreResult{}},
		})
	case missing && s.m.has("mover-unknown-snapshot/empties"):
		_ = os.Remove(filepath.Join(req.GetVolume().GetPath(), "a"))
		return status.Error(codes.NotFound, "no such snapshot")
	case missing:
		return status.Error(codes.NotFound, "no such snapshot")
	}
	if _, err := os.Stat(filepath.Join(snapshot, "which")); err == nil && s.m.has("mover-concurrent") {
		snapshot = latest
	}
	if s.m.has("mover-replace/empties") {
		entries, _ := os.ReadDir(req.GetVolume().GetPath())
		for _, entry := range entries {
			_ = os.RemoveAll(filepath.Join(req.GetVolume().GetPath(), entry.Name()))
		}
	}
	if _, err := s.m.copy(snapshot, req.GetVolume().GetPath()); err != nil {
		return err
	}
	if s.m.has("mover-messages/none") {
		return nil
	}
	return stream.Send(&datamoverv1.RestoreResponse{
		Part: &datamoverv1.RestoreResponse_Result{Result: &datamoverv1.RestoreResult{}},
	})
}

// copy copies a tree and returns the size of its files.
func (m *mover) copy(from, to string) (bytes int64, err error) {
	return bytes, errors.Join(filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		if m.has("mover-round-trip/mode") {
			mode = 0o750
		}
		switch {
		case strings.ContainsAny(entry.Name(), "\n*") && m.has("mover-names"):
			return nil
		case entry.IsDir():
			return errors.Join(os.MkdirAll(target, 0o750), os.Chmod(target, mode))
		case entry.Type() == fs.ModeSymlink:
			link, err := os.Readlink(path)
			if m.has("mover-round-trip/links") || err != nil {
				return err
			}
			return os.Symlink(link, target)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if m.has("mover-round-trip/large") && len(content) > 1<<20 {
			content = content[:1<<20]
		}
		bytes += int64(len(content))
		if _, err := os.Stat(target); err == nil && m.has("mover-replace/skips") {
			return nil
		}
		_ = os.Remove(target)
		return errors.Join(os.WriteFile(target, content, 0o600), os.Chmod(target, mode))
	}))
}

func (s moverServer) Forget(
	req *datamoverv1.ForgetRequest, stream grpc.ServerStreamingServer[datamoverv1.ForgetResponse],
) error {
	folder, err := s.m.open(req.GetPlugin(), req.GetRepository())
	if err != nil {
		return err
	}
	for _, id := range req.GetSnapshotIds() {
		snapshot := filepath.Join(folder, id)
		if _, err := os.Stat(snapshot); err != nil && s.m.has("mover-forget/strict") {
			return status.Error(codes.NotFound, "no such snapshot")
		}
		if s.m.has("mover-forget/all") {
			snapshot = filepath.Join(folder, "*")
		}
		all, _ := filepath.Glob(snapshot)
		for _, one := range all {
			if filepath.Base(one) != "password" && !s.m.has("mover-forget/none") {
				err = errors.Join(err, os.RemoveAll(one))
			}
		}
	}
	if err != nil {
		return err
	}
	return stream.Send(&datamoverv1.ForgetResponse{
		Part: &datamoverv1.ForgetResponse_Result{Result: &datamoverv1.ForgetResult{}},
	})
}

func (s moverServer) Maintain(
	req *datamoverv1.MaintainRequest, stream grpc.ServerStreamingServer[datamoverv1.MaintainResponse],
) error {
	folder, err := s.m.open(req.GetPlugin(), req.GetRepository())
	if err != nil {
		return err
	}
	if s.m.has("mover-maintain") {
		all, err := filepath.Glob(filepath.Join(folder, "[^.]*")) // without the parts of backups that are at work
		for _, one := range all {
			_, beside := os.Stat(filepath.Join(one, "beside")) // another rule has them
			if filepath.Base(one) != "password" && beside != nil {
				err = errors.Join(err, os.RemoveAll(one))
			}
		}
		if err != nil {
			return err
		}
	}
	return stream.Send(&datamoverv1.MaintainResponse{
		Part: &datamoverv1.MaintainResponse_Result{Result: &datamoverv1.MaintainResult{}},
	})
}

func moverDefects() map[string]defect {
	all := map[string]defect{}
	for flaw, along := range map[string][]string{
		"mover-create/always":            nil,
		"mover-missing/creates":          {"mover-create"},
		"mover-missing/code":             {"mover-create"},
		"mover-password/says":            nil,
		"mover-password/takes":           nil,
		"mover-messages/negative":        nil,
		"mover-messages/activity":        nil,
		"mover-messages/twice":           nil,
		"mover-messages/none":            nil,
		"mover-messages/id":              nil,
		"mover-round-trip/mode":          nil,
		"mover-round-trip/links":         nil,
		"mover-round-trip/large":         {"mover-cancelled"},
		"mover-names":                    nil,
		"mover-replace/empties":          nil,
		"mover-replace/skips":            nil,
		"mover-snapshots":                nil,
		"mover-full":                     nil,
		"mover-parent-unknown":           nil,
		"mover-again":                    nil,
		"mover-empty":                    nil,
		"mover-unknown-snapshot/nothing": {"mover-forget"},
		"mover-unknown-snapshot/empties": nil,
		"mover-forget/strict":            nil,
		"mover-forget/all":               nil,
		"mover-forget/none":              nil,
		"mover-maintain":                 nil,
		"mover-maintain-beside":          nil,
		"mover-settings/backup":          nil,
		"mover-settings/check":           nil,
		"mover-cancelled":                nil,
		"mover-concurrent":               nil,
		"mover-restart":                  nil,
	} {
		all[flaw] = defect{kind: "DataMover", along: along, plant: func(p *program) {
			p.mover.flaw = flaw
			p.mover.atOnce.Add(4)
		}}
	}
	return all
}
