package restic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

// keyTag is the tag of a snapshot that has the key of its load.
const keyTag = "cleat-load"

// host is the host of all snapshots, as in Velero's.
const host = "velero"

// Backup implements dmv1.DataMover.
func (m *mover) Backup(ctx context.Context, input *dmv1.BackupInput) (*dmv1.BackupOutput, error) {
	tags, err := tagFlags(input)
	if err != nil {
		return nil, err
	}
	s, err := m.open(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end()
	if input.Again {
		if stored, err := s.stored(ctx, input.Key); stored != nil || err != nil {
			return stored, err
		}
	}
	b := &backup{session: s, volume: input.Volume}
	b.args = append([]string{"backup", "--json", "--host=" + host}, tags...)
	if err := b.base(ctx, input); err != nil {
		return nil, err
	}
	b.concurrency(input.Settings)
	c, err := b.source(ctx)
	if err != nil {
		return nil, err
	}
	defer b.looking.Wait()
	if c.Stdin != nil {
		defer func() { _ = c.Stdin.Close() }()
	}
	c.Args, c.Line = b.args, b.line
	var failed *program.Error
	err = s.waitForLocks(ctx, func() error {
		err := s.once(ctx, c)
		if errors.As(err, &failed) && (failed.Says(emptySnapshot) || b.incomplete(failed)) {
			return nil
		}
		failed = nil
		return err
	})
	if err != nil {
		return nil, err
	}
	b.looking.Wait()
	if failed != nil && failed.Says(emptySnapshot) {
		return b.nothing()
	}
	return b.finish(ctx)
}

// emptySnapshot is what restic says about a volume in which there is nothing.
const emptySnapshot = "snapshot is empty"

// nothing returns the result for a volume in which restic has found nothing.
func (b *backup) nothing() (*dmv1.BackupOutput, error) {
	if len(b.unread) > 0 || b.volume.Block {
		return nil, framework.Errorf("nothing of the volume could be read: %s", b.Clean(strings.Join(b.unread, "; ")))
	}
	return &dmv1.BackupOutput{Warnings: b.Warned()}, nil
}

// backup is one backup of a volume.
type backup struct {
	*session
	volume  dmv1.Volume
	args    []string
	size    int64          // of a device
	looking sync.WaitGroup // at links, beside restic

	summary  *program.Message
	vanished names    // files that were deleted before restic read them
	unread   []string // files that could not be read, with the reason
	failed   int
}

// tagFlags returns the flags for the tags of a snapshot.
func tagFlags(input *dmv1.BackupInput) ([]string, error) {
	if input.Key == "" {
		return nil, framework.Invalid("the backup has no key")
	}
	tags := maps.Clone(input.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[keyTag] = input.Key
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		tag := name + "=" + tags[name]
		if strings.ContainsAny(tag, ",\n\x00") {
			return nil, framework.Invalid("tag %q has a comma or a line break, which restic cannot store", tag)
		}
		flags = append(flags, "--tag="+tag)
	}
	return flags, nil
}

// stored returns the snapshot of an earlier attempt; nil if there is none.
func (s *session) stored(ctx context.Context, key string) (*dmv1.BackupOutput, error) {
	listed, err := s.capture(ctx, "snapshots", "--json", "--tag="+keyTag+"="+key)
	if err != nil {
		return nil, err
	}
	var snapshots []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(listed, &snapshots); err != nil {
		return nil, framework.Errorf("read the list of snapshots of restic %s: %w", s.program.Version(), err)
	}
	if len(snapshots) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	id := snapshots[len(snapshots)-1].ID
	counted, err := s.capture(ctx, "stats", "--json", "--mode=restore-size", id)
	if err != nil {
		return nil, err
	}
	var size struct {
		TotalSize int64 `json:"total_size"`
	}
	if err := json.Unmarshal(counted, &size); err != nil {
		return nil, framework.Errorf("read the size of snapshot %s: %w", id, err)
	}
	return &dmv1.BackupOutput{SnapshotID: id, Bytes: size.TotalSize, Warnings: s.Warned()}, nil
}

// base chooses the parent. Without one, restic would choose a snapshot of the same path by itself, which may be of
// another volume.
func (b *backup) base(ctx context.Context, input *dmv1.BackupInput) error {
	if parent := input.Parent; parent != "" && !input.Full && !b.volume.Block {
		id, err := b.snapshot(ctx, parent)
		if err == nil {
			b.args = append(b.args, "--parent="+id)
			return nil
		}
		if !errors.Is(err, framework.ErrNotFound) {
			return err
		}
		framework.Log(ctx).Info("the parent does not exist, reading everything", "parent", parent)
	}
	b.args = append(b.args, "--force")
	return nil
}

// concurrency applies the settings of the user.
func (b *backup) concurrency(settings map[string]string) {
	files := b.mover.config.ReadConcurrency
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value, err := strconv.Atoi(settings[name])
		switch {
		case name != "ParallelFilesUpload":
			b.Warn("the setting %q is not one of %s and has no effect", name, Name)
		case err != nil || value < 0:
			b.Warn("the setting ParallelFilesUpload is %q, want a number; it has no effect", settings[name])
		case value > 0:
			files = value
		}
	}
	switch {
	case files == 0:
	case b.program.AtLeast(0, 15):
		b.args = append(b.args, fmt.Sprintf("--read-concurrency=%d", files))
	default:
		b.Warn("restic %s cannot read %d files at once, which needs 0.15 or newer", b.program.Version(), files)
	}
}

// source returns the command with what it reads.
func (b *backup) source(ctx context.Context) (c program.Command, err error) {
	if !filepath.IsAbs(b.volume.Path) {
		return c, framework.Invalid("volume %q is not an absolute path", b.volume.Path)
	}
	if b.volume.Block {
		if c.Stdin, b.size, err = openDevice(b.volume.Path, os.O_RDONLY); err != nil {
			return c, err
		}
		b.args = append(b.args, "--stdin", "--stdin-filename="+deviceFile)
		return c, nil
	}
	info, err := os.Stat(b.volume.Path)
	if err != nil {
		return c, fmt.Errorf("volume: %w", err)
	}
	if !info.IsDir() {
		return c, framework.Invalid("volume %s is not a directory", b.volume.Path)
	}
	b.looking.Go(func() { b.losses(ctx) })
	c.Dir = b.volume.Path
	b.args = append(b.args, ".")
	return c, nil
}

// line takes one line of restic's output.
func (b *backup) line(line []byte) {
	message, ok := program.Parse(line)
	if !ok {
		return
	}
	switch message.Type {
	case "status":
		b.report(func(p *dmv1.Progress) {
			p.DoneBytes, p.DoneFiles = message.BytesDone, message.FilesDone
			p.TotalBytes, p.TotalFiles = max(message.TotalBytes, message.BytesDone), max(message.TotalFiles, message.FilesDone)
			if b.volume.Block {
				p.TotalBytes, p.TotalFiles = max(b.size, message.BytesDone), 1
			}
			p.Activity = ""
		})
	case "summary":
		b.summary = &message
	case "error":
		b.problem(message)
	}
}

// problem handles an error of restic with one file.
func (b *backup) problem(message program.Message) {
	if message.During == "scan" { // which only counts
		return
	}
	item, err := relative(b.volume.Path, message.Item), message.Err()
	const most = 100
	switch {
	case errors.Is(err, fs.ErrNotExist), isGone(message.Item):
		b.vanished.add(item)
	default:
		b.failed++
		if len(b.unread) < most {
			b.unread = append(b.unread, fmt.Sprintf("%q: %v", item, err))
		}
	}
}

// isGone reports whether a file does not exist any more. Some errors of restic say nothing, such as those of the
// attributes of a file that was deleted after restic had opened it.
func isGone(path string) bool {
	_, err := os.Lstat(path)
	return path != "" && errors.Is(err, fs.ErrNotExist)
}

// incomplete reports whether a command has failed only because it could not read some files.
func (b *backup) incomplete(failed *program.Error) bool {
	return failed.Code == program.Incomplete && b.summary != nil && b.summary.SnapshotID != ""
}

// finish returns the result of a backup that has made a snapshot. A snapshot without files that exist is removed.
func (b *backup) finish(ctx context.Context) (*dmv1.BackupOutput, error) {
	if b.summary == nil || b.summary.SnapshotID == "" {
		return nil, framework.Errorf("restic %s has ended without the id of a snapshot", b.program.Version())
	}
	id, err := b.snapshot(ctx, b.summary.SnapshotID)
	if err != nil {
		return nil, framework.Errorf("restic says that it has stored a snapshot: %w", err)
	}
	b.unreadable()
	if b.failed > 0 {
		err := framework.Errorf("%d files of the volume could not be read: %s", b.failed,
			b.Clean(strings.Join(b.unread[:min(len(b.unread), 3)], "; ")))
		return nil, errors.Join(err, b.place.objects.remove(context.WithoutCancel(ctx), "snapshots/"+id))
	}
	b.vanished.warn(b.List, "deleted while the volume was read, and not in the snapshot")
	return &dmv1.BackupOutput{
		SnapshotID: id, Bytes: b.summary.BytesProcessed, NewBytes: b.summary.DataAdded, Warnings: b.Warned(),
	}, nil
}

// unreadable makes sure that a device was read to its end.
func (b *backup) unreadable() {
	if b.volume.Block && b.failed == 0 && b.summary.BytesProcessed != b.size {
		b.failed = 1
		b.unread = append(b.unread, fmt.Sprintf("%d of the %d bytes of %s", b.summary.BytesProcessed, b.size, b.volume.Path))
	}
}
