package restic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

// Restore implements dmv1.DataMover.
func (m *mover) Restore(ctx context.Context, input *dmv1.RestoreInput) (*dmv1.RestoreOutput, error) {
	s, err := m.open(ctx, input.Repository, input.Report)
	if err != nil {
		return nil, err
	}
	defer s.end()
	id, err := s.snapshot(ctx, input.SnapshotID)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(input.Volume.Path) {
		return nil, framework.Invalid("volume %q is not an absolute path", input.Volume.Path)
	}
	if input.Volume.Block {
		s.restoreSettings(input.Settings)
		return s.restoreDevice(ctx, id, input)
	}
	if info, err := os.Stat(input.Volume.Path); err != nil {
		return nil, fmt.Errorf("volume: %w", err)
	} else if !info.IsDir() {
		return nil, framework.Invalid("volume %s is not a directory", input.Volume.Path)
	}
	if err := s.checkLinks(ctx, id, input.Volume.Path); err != nil {
		return nil, err
	}
	r := &restore{session: s, total: input.Bytes}
	args := append([]string{"restore", id, "--target=."}, s.restoreSettings(input.Settings)...)
	if s.program.AtLeast(0, 16) {
		args = append(args, "--json")
		r.told = true
	}
	err = s.waitForLocks(ctx, func() error {
		r.refused, r.failures = names{}, 0
		var failed *program.Error
		err := s.once(ctx, program.Command{Args: args, Dir: input.Volume.Path, Line: r.line, Beat: r.beat})
		if errors.As(err, &failed) && r.isWhole(failed) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.refused.warn(s.List, "objects do not have the owner, permissions, time or extended attributes of the backup, "+
		"because the volume refuses them")
	return &dmv1.RestoreOutput{Bytes: r.total, Warnings: s.Warned()}, nil
}

// restoreSettings returns the flags for the settings of the user.
func (s *session) restoreSettings(settings map[string]string) []string {
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		switch name {
		case "WriteSparseFiles":
			sparse, err := strconv.ParseBool(value)
			switch {
			case err != nil:
				s.Warn("the setting WriteSparseFiles is %q, want true or false; it has no effect", value)
			case sparse && s.program.AtLeast(0, 15):
				flags = append(flags, "--sparse")
			case sparse:
				s.Warn("restic %s writes the holes of sparse files, which needs 0.15 or newer to be otherwise", s.program.Version())
			}
		case "ParallelFilesDownload":
			files, err := strconv.Atoi(value)
			switch {
			case err != nil || files < 0 || files > 1000:
				s.Warn("the setting ParallelFilesDownload is %q, want a number; it has no effect", value)
			case files > 0:
				flags = append(flags, "-o", fmt.Sprintf("%s.connections=%d", s.place.backend, files))
			}
		default:
			s.Warn("the setting %q is not one of %s and has no effect", name, Name)
		}
	}
	return flags
}

// restore is one restore of a directory.
type restore struct {
	*session
	total int64 // bytes; 0 if not known
	told  bool  // restic prints its progress

	failures int   // errors of objects
	refused  names // objects whose attributes the volume refuses, which are among the failures
}

var (
	// ignoredError is what restic before 0.16 says about an object that it cannot restore whole.
	ignoredError = regexp.MustCompile(`^ignoring error for (.*?): (.*)$`)
	// refusedAttribute is the error of an attribute that a volume refuses.
	refusedAttribute = regexp.MustCompile(`(?i)(lchown|chmod|utimesnano|lset|xattr).*(operation not permitted|` +
		`permission denied|operation not supported|invalid argument)`)
)

// failure takes an error of restic with an object.
func (r *restore) failure(item, text string) {
	r.failures++
	if refusedAttribute.MatchString(text) {
		r.refused.add(strings.TrimPrefix(item, "/"))
	}
}

// isWhole reports whether a restore has failed only because the volume refuses attributes, which fails none of kopia or
// Velero either. All contents are there.
func (r *restore) isWhole(failed *program.Error) bool {
	return r.failures > 0 && r.failures == r.refused.count && failed.Code == 1 &&
		failed.Says(fmt.Sprintf("There were %d errors", r.failures))
}

// line takes one line of restic's output.
func (r *restore) line(line []byte) {
	message, ok := program.Parse(line)
	if found := ignoredError.FindSubmatch(line); !ok && found != nil {
		r.failure(string(found[1]), string(found[2]))
	}
	if ok && message.Type == "error" {
		r.failure(message.Item, message.Err().Error())
	}
	if !ok || message.Type != "status" && message.Type != "summary" {
		return
	}
	r.report(func(p *dmv1.Progress) {
		p.DoneBytes, p.DoneFiles = message.BytesRestored+message.BytesSkipped, message.FilesRestored+message.FilesSkipped
		p.TotalBytes, p.TotalFiles = max(message.TotalBytes, p.DoneBytes), max(message.TotalFiles, p.DoneFiles)
		p.Activity = ""
	})
	if message.Type == "summary" {
		r.total = message.TotalBytes
	}
}

// beat reports what restic has written as the progress of a restic that prints none. Most of it goes to files, and
// little to its cache and to connections.
func (r *restore) beat(usage program.Usage) {
	if r.told {
		return
	}
	r.report(func(p *dmv1.Progress) {
		p.DoneBytes, p.TotalBytes = usage.Written, r.total
		if r.total > 0 {
			p.DoneBytes = min(p.DoneBytes, r.total)
		}
	})
}
