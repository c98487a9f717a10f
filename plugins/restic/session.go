package restic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/internal/warnings"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

// session is one call of the mover on a repository.
type session struct {
	*warnings.List

	mover      *mover
	repository dmv1.Repository
	program    *program.Program
	place      *place
	caCert     string // path of a file; empty for none
	tell       func(dmv1.Progress)

	mu       sync.Mutex
	progress dmv1.Progress
}

// start begins a call. It does not access the repository.
func (m *mover) start(ctx context.Context, r dmv1.Repository, report func(dmv1.Progress)) (*session, error) {
	place, err := newPlace(ctx, r)
	if err != nil {
		return nil, err
	}
	restic, err := m.restic(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{List: warnings.New(r.Password), mover: m, repository: r, program: restic, place: place, tell: report}
	if place.caCert != "" {
		file, err := os.CreateTemp("", "cleat-restic-ca-*.pem")
		if err != nil {
			return nil, err
		}
		s.caCert = file.Name()
		if _, err := file.WriteString(place.caCert); err != nil {
			s.end()
			return nil, errors.Join(err, file.Close())
		}
		if err := file.Close(); err != nil {
			s.end()
			return nil, err
		}
	}
	return s, nil
}

// open begins a call on a repository that must exist.
func (m *mover) open(ctx context.Context, r dmv1.Repository, report func(dmv1.Progress)) (*session, error) {
	s, err := m.start(ctx, r, report)
	if err != nil {
		return nil, err
	}
	if err := s.look(ctx); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// end removes what the call has left on this machine.
func (s *session) end() {
	if s.caCert != "" {
		_ = os.Remove(s.caCert)
	}
}

// kopiaFiles are files of a repository of Kopia, the last one by Velero.
func kopiaFiles() []string {
	return []string{"kopia.repository", "kopia.repository.f", "udmrepo.Repository"}
}

// look returns an error unless there is a repository of restic.
func (s *session) look(ctx context.Context) error {
	found, err := s.place.objects.exists(ctx, "config")
	if err != nil {
		return s.away(err)
	}
	if found {
		return nil
	}
	if _, err := s.place.objects.list(ctx, "keys", ""); err != nil {
		// there may be no such bucket, which is not for restic to create
		return s.away(err)
	}
	for _, file := range kopiaFiles() {
		if found, err := s.place.objects.exists(ctx, file); err != nil {
			return s.away(err)
		} else if found {
			return isKopia(s.repository)
		}
	}
	return framework.NotFound("there is no repository of restic at %s", s.repository)
}

var fullID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// snapshot returns the whole id of a snapshot. id may be its beginning, as Velero keeps it.
func (s *session) snapshot(ctx context.Context, id string) (string, error) {
	if len(id) < 8 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", framework.NotFound("%q is not the id of a snapshot of restic", id)
	}
	found, err := s.place.objects.list(ctx, "snapshots", id)
	switch {
	case err != nil:
		return "", s.away(err)
	case len(found) == 0:
		return "", framework.NotFound("there is no snapshot %s in repository %s", id, s.repository)
	case len(found) > 1:
		return "", framework.Invalid("there are %d snapshots in repository %s whose ids begin with %s", len(found),
			s.repository, id)
	case !fullID.MatchString(found[0]):
		return "", framework.Errorf("repository %s is damaged: snapshots/%s is not the name of a snapshot", s.repository,
			found[0])
	}
	return found[0], nil
}

// run runs a command, and waits while locks of others prevent it.
func (s *session) run(ctx context.Context, c program.Command) error {
	return s.waitForLocks(ctx, func() error { return s.once(ctx, c) })
}

// once runs a command once. Its error is that of the program.
func (s *session) once(ctx context.Context, c program.Command) error {
	c.Args = append(c.Args, "--repo="+s.place.url, "--cache-dir="+s.mover.cache)
	c.Args = append(c.Args, s.place.flags...)
	c.Args = append(c.Args, s.mover.config.flags()...)
	if s.mover.config.Connections > 0 {
		c.Args = append(c.Args, "-o", fmt.Sprintf("%s.connections=%d", s.place.backend, s.mover.config.Connections))
	}
	if s.caCert != "" {
		c.Args = append(c.Args, "--cacert="+s.caCert)
	}
	if s.repository.ReadOnly {
		c.Args = append(c.Args, "--no-lock")
	}
	c.Env = append(append(c.Env, s.place.env...), s.mover.config.environment()...)
	c.Password = s.repository.Password
	handle := c.Line
	c.Line = func(line []byte) {
		if _, ok := program.Parse(line); !ok && c.Stdout == nil {
			text := s.Clean(string(line))
			framework.Log(ctx).Debug("restic", "line", text)
			s.report(func(p *dmv1.Progress) { p.Activity = text })
		}
		if handle != nil {
			handle(line)
		}
	}
	beat := c.Beat
	c.Every, c.Beat = s.mover.every, func(usage program.Usage) {
		if beat != nil {
			beat(usage)
		}
		s.report(func(*dmv1.Progress) {})
	}
	return s.program.Run(ctx, c)
}

// capture runs a command and returns what it prints.
func (s *session) capture(ctx context.Context, args ...string) ([]byte, error) {
	var output strings.Builder
	err := s.run(ctx, program.Command{Args: args, Stdout: io.Writer(&output)})
	return []byte(output.String()), err
}

// report changes the progress, and tells the host.
func (s *session) report(change func(*dmv1.Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.progress)
	s.tell(s.progress)
}

// relative returns the path of an item below a volume, for people.
func relative(volume, item string) string {
	if below, err := filepath.Rel(volume, item); err == nil {
		return below
	}
	return item
}
