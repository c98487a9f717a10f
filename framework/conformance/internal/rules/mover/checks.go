package mover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
)

func checkCreate(ctx context.Context, m *mover) error {
	repository := m.repository()
	for _, first := range []bool{true, false} {
		result, err := m.check(ctx, &datamoverv1.CheckRequest{Repository: repository, Create: true})
		if err != nil {
			return err
		}
		if result.GetCreated() != first {
			return fmt.Errorf("call of Check with create: created is %t, want %t", result.GetCreated(), first)
		}
	}
	result, err := m.check(ctx, &datamoverv1.CheckRequest{Repository: repository, Depth: datamoverv1.Depth_DEPTH_DATA})
	if err == nil && result.GetCreated() {
		err = errors.New("call of Check without create: created is true")
	}
	return err
}

func checkMissing(ctx context.Context, m *mover) error {
	volume, err := m.volume(map[string]string{"a": "content"})
	if err != nil {
		return err
	}
	repository := m.repository()
	for range 2 { // the first must not create it
		_, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume})
		if err := wants("Backup into a repository that does not exist", err, codes.NotFound); err != nil {
			return err
		}
	}
	if err := wants("Maintain of a repository that does not exist", m.maintain(ctx, repository),
		codes.NotFound); err != nil {
		return err
	}
	_, err = m.check(ctx, &datamoverv1.CheckRequest{Repository: repository})
	return wants("Check of a repository that does not exist", err, codes.NotFound)
}

func checkPassword(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	const wrong = "a-wrong-password"
	other := &datamoverv1.Repository{Provider: repository.GetProvider(), Config: repository.GetConfig(),
		Path: repository.GetPath(), Password: []byte(wrong)}
	_, err = m.check(ctx, &datamoverv1.CheckRequest{Repository: other, Create: true})
	if err := wants("Check with a wrong password", err, codes.InvalidArgument); err != nil {
		return err
	}
	if strings.Contains(err.Error(), wrong) {
		return fmt.Errorf("the error has the password in it: %w", err)
	}
	return nil
}

func checkMessages(ctx context.Context, m *mover) error {
	repository, volume, err := m.readyWith(ctx, map[string]string{"a": "content"})
	if err != nil {
		return err
	}
	stored, err := received(ctx, m, m.client.Backup,
		&datamoverv1.BackupRequest{Plugin: m.Name, Repository: repository, Key: "messages", Volume: volume},
		(*datamoverv1.BackupResponse).GetResult)
	if err != nil {
		return fmt.Errorf("call of Backup: %w", err)
	}
	if err := proper("Backup", stored); err != nil {
		return err
	}
	result := stored.results[0]
	output := dmv1.DecodeBackup(result)
	if err := output.Validate(&dmv1.BackupInput{}); err != nil {
		return fmt.Errorf("call of Backup: %w", err)
	}
	if err := hostapi.Line("snapshot_id", output.SnapshotID); err != nil { // the volume is not empty
		return fmt.Errorf("call of Backup: %w", err)
	}
	restored, err := received(ctx, m, m.client.Restore, &datamoverv1.RestoreRequest{
		Plugin: m.Name, Repository: repository, SnapshotId: result.GetSnapshotId(), Volume: volume, Bytes: result.GetBytes(),
	}, (*datamoverv1.RestoreResponse).GetResult)
	if err != nil {
		return fmt.Errorf("call of Restore: %w", err)
	}
	return proper("Restore", restored)
}

// proper checks the messages of a call.
func proper[R any](call string, got reply[R]) error {
	switch {
	case len(got.results) != 1:
		return fmt.Errorf("call of %s: there are %d results, want one", call, len(got.results))
	case got.after > 0:
		return fmt.Errorf("call of %s: there are %d messages after the result", call, got.after)
	}
	for _, p := range got.progress {
		progress := dmv1.DecodeProgress(p)
		if err := progress.Validate(); err != nil {
			return fmt.Errorf("call of %s: %w", call, err)
		}
	}
	return nil
}

func checkRoundTrip(ctx context.Context, m *mover) error {
	files := map[string]string{"empty": "", "a/b/c": "content", "large": strings.Repeat("0123456789abcdef", 200_000),
		"zeros": string(make([]byte, 1<<20))}
	repository, volume, err := m.readyWith(ctx, files)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(filepath.Join(volume.GetPath(), "large"), 0o640),
		os.Chmod(filepath.Join(volume.GetPath(), "a/b"), 0o700),
		os.Symlink("large", filepath.Join(volume.GetPath(), "link"))); err != nil {
		return err
	}
	stored, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume})
	if err != nil {
		return err
	}
	target, err := m.volume(nil)
	if err != nil {
		return err
	}
	if err := m.restore(ctx, &datamoverv1.RestoreRequest{Repository: repository, SnapshotId: stored.GetSnapshotId(),
		Volume: target}); err != nil {
		return err
	}
	if err := has(target, files); err != nil {
		return fmt.Errorf("after Restore: %w", err)
	}
	for name, want := range map[string]os.FileMode{"large": 0o640, "a/b": 0o700 | os.ModeDir} {
		if info, err := os.Stat(filepath.Join(target.GetPath(), name)); err != nil || info.Mode() != want {
			return fmt.Errorf("after Restore: %s has the mode %v (%w), want %v", name, info.Mode(), err, want)
		}
	}
	if to, err := os.Readlink(filepath.Join(target.GetPath(), "link")); err != nil || to != "large" {
		return fmt.Errorf("after Restore: the symbolic link leads to %q (%w), want %q", to, err, "large")
	}
	return nil
}

func checkNames(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{
		"a space": "1", `quotes"'`: "2", "line\nbreak": "3", "-dash": "4", "grün/日本": "5", strings.Repeat("x", 255): "6",
		"*": "7", "back\\slash": "8",
	}
	id, err := m.stored(ctx, repository, files)
	if err != nil {
		return err
	}
	return m.comesBack(ctx, repository, id, files)
}

func checkReplace(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	id, err := m.stored(ctx, repository, map[string]string{"a": "new", "b/c": "also new"})
	if err != nil {
		return err
	}
	target, err := m.volume(map[string]string{"a": "older and longer", "b/d": "stays", "e": "stays"})
	if err != nil {
		return err
	}
	if err := m.restore(ctx, &datamoverv1.RestoreRequest{Repository: repository, SnapshotId: id,
		Volume: target}); err != nil {
		return err
	}
	return has(target, map[string]string{"a": "new", "b/c": "also new", "b/d": "stays", "e": "stays"})
}

func checkSnapshots(ctx context.Context, m *mover) error {
	states := []map[string]string{{"a": "first", "b": "same"}, {"a": "second, longer", "b": "same"}}
	repository, volume, err := m.readyWith(ctx, states[0])
	if err != nil {
		return err
	}
	first, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(volume.GetPath(), "a"), []byte(states[1]["a"]), 0o600); err != nil {
		return err
	}
	second, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume,
		Parent: first.GetSnapshotId()})
	if err != nil {
		return err
	}
	same, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume,
		Parent: second.GetSnapshotId()})
	if err != nil {
		return err
	}
	if one, two, three := first.GetSnapshotId(), second.GetSnapshotId(), same.GetSnapshotId(); one == two ||
		two == three || one == three {
		return fmt.Errorf("three Backups with different keys have the snapshots %q, %q and %q", one, two, three)
	}
	for i, id := range []string{first.GetSnapshotId(), second.GetSnapshotId()} {
		if err := m.comesBack(ctx, repository, id, states[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkParentUnknown(ctx context.Context, m *mover) error {
	repository, volume, err := m.readyWith(ctx, map[string]string{"a": "content"})
	if err != nil {
		return err
	}
	_, err = m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume, Parent: "0123456789abcdef"})
	return err
}

func checkFull(ctx context.Context, m *mover) error {
	repository, volume, err := m.readyWith(ctx, map[string]string{"a": "before"})
	if err != nil {
		return err
	}
	request := &datamoverv1.BackupRequest{Repository: repository, Key: "full-1", Volume: volume,
		Source: &datamoverv1.Source{Requester: dmv1.PodVolume, Namespace: "conformance", Pod: "pod", Volume: "volume",
			Claim: "claim"}}
	if _, err := m.backup(ctx, request); err != nil {
		return err
	}
	file := filepath.Join(volume.GetPath(), "a")
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(file, []byte("behind"), 0o600), os.Chtimes(file, info.ModTime(),
		info.ModTime())); err != nil {
		return err
	}
	request.Key, request.Full = "full-2", true
	stored, err := m.backup(ctx, request)
	if err != nil {
		return err
	}
	return m.comesBack(ctx, repository, stored.GetSnapshotId(), map[string]string{"a": "behind"})
}

func checkAgain(ctx context.Context, m *mover) error {
	repository, volume, err := m.readyWith(ctx, map[string]string{"a": "content"})
	if err != nil {
		return err
	}
	var first *datamoverv1.BackupResult
	for _, again := range []bool{true, true} { // the first one may be an attempt after which nobody knows
		result, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Key: "again", Volume: volume,
			Again: again})
		if err != nil {
			return err
		}
		if first == nil {
			first = result
		}
		if first.GetSnapshotId() != result.GetSnapshotId() {
			return fmt.Errorf("the second Backup with the same key has the snapshot %q, want that of the first, %q",
				result.GetSnapshotId(), first.GetSnapshotId())
		}
	}
	return nil
}

func checkEmpty(ctx context.Context, m *mover) error {
	repository, volume, err := m.readyWith(ctx, nil)
	if err != nil {
		return err
	}
	result, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume})
	switch {
	case err != nil:
		return err
	case result.GetBytes() != 0:
		return fmt.Errorf("the snapshot of an empty volume has %d bytes", result.GetBytes())
	case result.GetSnapshotId() == "":
		return nil
	}
	return m.comesBack(ctx, repository, result.GetSnapshotId(), map[string]string{})
}

func checkUnknownSnapshot(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	other := m.repository()
	if _, err := m.check(ctx, &datamoverv1.CheckRequest{Repository: other, Create: true}); err != nil {
		return err
	}
	foreign, err := m.stored(ctx, other, map[string]string{"foreign": "content"})
	if err != nil {
		return err
	}
	files := map[string]string{"a": "content"}
	for _, id := range []string{foreign, "0123456789abcdef", "latest", "..", ""} {
		volume, err := m.volume(files)
		if err != nil {
			return err
		}
		err = m.restore(ctx, &datamoverv1.RestoreRequest{Repository: repository, SnapshotId: id, Volume: volume})
		if err := wants(fmt.Sprintf("Restore of the snapshot %q, which does not exist", id), err,
			codes.NotFound); err != nil {
			return err
		}
		if err := has(volume, files); err != nil {
			return err
		}
	}
	return nil
}

func checkForget(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{"a": "content"}
	forgotten, err := m.stored(ctx, repository, files)
	if err != nil {
		return err
	}
	kept, err := m.stored(ctx, repository, files)
	if err != nil {
		return err
	}
	for range 2 { // the second time it does not exist
		if err := m.forget(ctx, repository, forgotten, "0123456789abcdef"); err != nil {
			return err
		}
	}
	volume, err := m.volume(nil)
	if err != nil {
		return err
	}
	err = m.restore(ctx, &datamoverv1.RestoreRequest{Repository: repository, SnapshotId: forgotten, Volume: volume})
	if err := wants("Restore of a snapshot after its Forget", err, codes.NotFound); err != nil {
		return err
	}
	return m.comesBack(ctx, repository, kept, files)
}

func checkMaintain(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{"a": "content", "b": strings.Repeat("x", 100_000)}
	id, err := m.stored(ctx, repository, files)
	if err != nil {
		return err
	}
	if err := m.maintain(ctx, repository); err != nil {
		return err
	}
	if _, err := m.check(ctx, &datamoverv1.CheckRequest{Repository: repository,
		Depth: datamoverv1.Depth_DEPTH_DATA}); err != nil {
		return err
	}
	return m.comesBack(ctx, repository, id, files)
}

func checkMaintainBeside(ctx context.Context, m *mover) error {
	for _, plugin := range m.Info.GetPlugins() {
		if plugin.GetKind() == m.Kind && plugin.GetName() == m.Name &&
			slices.Contains(plugin.GetRoles(), string(framework.RoleMaintainsAlone)) {
			return suite.Skip("it declares the role %s", framework.RoleMaintainsAlone)
		}
	}
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	const times = 3
	group.Go(func() error {
		for range times {
			if err := m.maintain(ctx, repository); err != nil {
				return fmt.Errorf("beside Backups: %w", err)
			}
		}
		return nil
	})
	for i := range times {
		group.Go(func() error {
			files := map[string]string{"beside": fmt.Sprint(i), "content": strings.Repeat(fmt.Sprint(i), 1_000_000)}
			id, err := m.stored(ctx, repository, files)
			if err != nil {
				return fmt.Errorf("beside Maintain: %w", err)
			}
			return m.comesBack(ctx, repository, id, files)
		})
	}
	return group.Wait()
}

func checkSettings(ctx context.Context, m *mover) error {
	repository, volume, err := m.readyWith(ctx, map[string]string{"a": "content"})
	if err != nil {
		return err
	}
	result, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Volume: volume,
		Settings: map[string]string{"ConformanceUnknown": "1"}})
	if err != nil {
		return err
	}
	checked, err := m.check(ctx, &datamoverv1.CheckRequest{Repository: m.repository(), Create: true,
		Settings: map[string]string{"ConformanceUnknown": "1"}})
	if err != nil {
		return err
	}
	for call, warnings := range map[string][]string{"Backup": result.GetWarnings(), "Check": checked.GetWarnings()} {
		if !strings.Contains(strings.Join(warnings, "\n"), "ConformanceUnknown") {
			return fmt.Errorf(`call of %s: the setting "ConformanceUnknown" is taken without a word; the warnings are %q`,
				call, warnings)
		}
	}
	return nil
}

func checkCancelled(ctx context.Context, m *mover) error {
	files := map[string]string{"a": strings.Repeat("0123456789abcdef", 500_000), "b": "content"}
	repository, volume, err := m.readyWith(ctx, files)
	if err != nil {
		return err
	}
	const key = "cancelled"
	begun, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := m.client.Backup(begun, &datamoverv1.BackupRequest{Plugin: m.Name, Repository: repository, Key: key,
		Volume: volume})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil && err != io.EOF && suite.Hung(err) {
		return fmt.Errorf("call of Backup: %w", err)
	}
	cancel()
	for { // until the mover has ended its work, as far as that shows
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	result, err := m.backup(ctx, &datamoverv1.BackupRequest{Repository: repository, Key: key, Volume: volume, Again: true})
	if err != nil {
		return fmt.Errorf("after a Backup that was cancelled: %w", err)
	}
	return m.comesBack(ctx, repository, result.GetSnapshotId(), files)
}

func checkConcurrent(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range 4 {
		group.Go(func() error {
			files := map[string]string{"which": fmt.Sprint(i), "content": strings.Repeat(fmt.Sprint(i), 100_000)}
			id, err := m.stored(ctx, repository, files)
			if err != nil {
				return err
			}
			return m.comesBack(ctx, repository, id, files)
		})
	}
	return group.Wait()
}

func checkRestart(ctx context.Context, m *mover) error {
	repository, err := m.ready(ctx)
	if err != nil {
		return err
	}
	files := map[string]string{"a": "content"}
	id, err := m.stored(ctx, repository, files)
	if err != nil {
		return err
	}
	if _, err := m.NeedsProcess(ctx); err != nil {
		return err
	}
	m.Host.Stop()
	if err := m.connect(ctx); err != nil {
		return err
	}
	err = m.comesBack(ctx, repository, id, files)
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("after a kill -9: %w", err)
	}
	return err
}
