package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// writing runs one writer for a manifest, in a goroutine of its own.
type writing struct {
	*pending
	policy  *policy
	session *pluginhost.Session
	objects []string // the resources whose whole objects the writer gets
	keep    Keep
	ended   chan struct{} // closed when the writer has ended

	// Set before ended is closed.
	artifacts []Artifact
	err       error // why the writer is left out
}

func beginWriting(ctx context.Context, p *policy, session *pluginhost.Session, backup []byte, keep Keep) *writing {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &writing{
		pending: newPending(ctx, cancel, p.settings.Deadline.Std()), policy: p, session: session, keep: keep,
		ended: make(chan struct{}),
	}
	entry, err := p.find(session.Find, p.settings.Plugin, p.settings.Config)
	if err != nil {
		w.err = err
		cancel(err)
		close(w.ended)
		return w
	}
	w.objects = entry.Objects
	go func() {
		defer close(w.ended)
		w.err = w.write(ctx, backup)
		if cause := context.Cause(ctx); cause != nil && !errors.Is(w.err, cause) {
			w.err = w.plugin().Wrap(cause)
		}
		cancel(nil) // no more items are added
	}()
	return w
}

// gets reports whether the writer gets the whole objects of a resource.
func (w *writing) gets(group, resource string) bool {
	return slices.ContainsFunc(w.objects, func(named string) bool {
		return named == "*" || named == schema.GroupResource{Group: group, Resource: resource}.String()
	})
}

// write calls the writer to describe the added items.
func (w *writing) write(ctx context.Context, backup []byte) error {
	settings := w.policy.settings
	writer, err := pluginhost.Named(w.session, kinds.ManifestWriter(), settings.Plugin)
	if err != nil {
		return unavailable(w.policy.kind, settings.Plugin, err)
	}
	input := manifestwriter.Input{Config: settings.Config.Bytes(), Backup: backup}
	manifest, err := writer.Begin(calls.WithDeadline(ctx, settings.Deadline.Std()), input, w.keepOne)
	if err != nil {
		return err
	}
	defer manifest.Abort()
	for items := range w.batches {
		if err := manifest.Add(items...); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return manifest.Finish()
}

// keepOne implements manifestwriter.Keep.
func (w *writing) keepOne(name string, content io.Reader) error {
	if err := store.CheckArtifact(name); err != nil {
		return fmt.Errorf("%w: %w", versioning.ErrInvalidReply, err)
	}
	artifact := Artifact{Writer: w.policy.settings.Plugin, Name: name}
	if err := w.keep(artifact, content); err != nil {
		return &notKeptError{err}
	}
	w.artifacts = append(w.artifacts, artifact)
	return nil
}

// notKeptError is the error of an artifact that could not be stored.
type notKeptError struct{ error }

func (e *notKeptError) Unwrap() error { return e.error }

// claim records the writer as the owner of the names of its artifacts. It returns an error if a name belongs to a
// writer that is earlier in the configuration. The order in which the writers finish does not matter.
func (w *writing) claim(claimed map[string]string) error {
	for _, artifact := range w.artifacts {
		if other, taken := claimed[artifact.Name]; taken {
			return w.plugin().Reject(fmt.Errorf("it writes a file %s, as %s does, which is before it in "+
				"backups.manifestWriters; "+
				"remove one of them", artifact.Name, other))
		}
	}
	for _, artifact := range w.artifacts {
		claimed[artifact.Name] = artifact.Writer
	}
	return nil
}

func (w *writing) plugin() versioning.Plugin {
	return versioning.NewPlugin(w.policy.kind, w.policy.settings.Plugin)
}
