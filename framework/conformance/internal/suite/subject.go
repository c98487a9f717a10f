package suite

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
)

// Subject is a plugin that rules are checked on, or the process as a whole.
type Subject struct {
	*Suite
	Kind   string // name on the wire, or Process
	Name   string
	Schema []byte         // of its config
	Host   *Host          // a process for this subject
	memory map[string]any // results that checks share, see Remembered
}

func newSubject(s *Suite, kind, name string) *Subject {
	return &Subject{Suite: s, Kind: kind, Name: name, Host: &Host{suite: s}, memory: map[string]any{}}
}

// In returns the subject in the process of another one.
func (s *Subject) In(host *Host) *Subject {
	there := *s
	there.Host = host
	return &there
}

// Remembered returns the result of find, which it calls once per subject and key.
func Remembered[T any](s *Subject, key string, find func() T) T {
	if known, ok := s.memory[key].(*T); ok {
		return *known
	}
	found := find()
	s.memory[key] = &found
	return found
}

// Conn returns the connection to the plugin.
func (s *Subject) Conn(ctx context.Context) (*grpc.ClientConn, error) { return s.Host.Conn(ctx) }

// NeedsProcess returns the process. It skips a rule if the plugin runs in this process.
func (s *Subject) NeedsProcess(ctx context.Context) (*process.Process, error) {
	if _, err := s.Conn(ctx); err != nil {
		return nil, err
	}
	if p := s.Host.Process(); p != nil {
		return p, nil
	}
	return nil, Skip("the plugin runs in the process of the test")
}

// Unserved returns an error if the plugin is not served, so that nothing else can be checked.
func (s *Subject) Unserved(ctx context.Context) error {
	return Remembered(s, "unserved", func() error {
		known, ok := wire.Kind(s.Kind)
		if !ok {
			return Skip("this suite does not know the kind")
		}
		conn, err := s.Conn(ctx)
		if err != nil {
			return err
		}
		ctx, cancel := s.Call(ctx)
		defer cancel()
		if err := wire.Probe(ctx, conn, known, s.Name); status.Code(err) == codes.Unimplemented {
			return fmt.Errorf("%s: %w", known.Probe, err)
		}
		return nil
	})
}

// NeedsService skips a rule if the plugin is not served.
func (s *Subject) NeedsService(ctx context.Context) error {
	if s.Unserved(ctx) != nil {
		return Skip("it is not served")
	}
	return nil
}
