package policy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/server/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/status/serverreport"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// Manifests has the configured writers describe backups. It is safe for concurrent use.
type Manifests struct{ writers []*policy }

// Keep stores what a writer wrote, where it stays only if Finish says so. It is called for several writers at the same time,
// which may give their artifacts the same name: Finish names one of them at most. The rest is as with manifestwriter.Keep.
type Keep func(writer, artifact string, content io.Reader) error

// Begin has all writers describe one backup, which is JSON. It runs them in session, so that they log to the backup's log
// and stay the same even if their files are replaced. A writer that fails is left out from then on; Finish reports it. The
// caller must call Finish or Abort. The end of ctx aborts the manifest.
func (m *Manifests) Begin(ctx context.Context, session *pluginhost.Session, backup []byte, keep Keep) *Manifest {
	manifest := &Manifest{ctx: ctx, keep: keep}
	for _, p := range m.writers {
		w := &writing{policy: p, of: manifest}
		w.manifest, w.err = w.begin(session, backup)
		manifest.writers = append(manifest.writers, w)
	}
	return manifest
}

// Status returns how each writer works.
func (m *Manifests) Status() []serverreport.Policy {
	var all []serverreport.Policy
	for _, p := range m.writers {
		all = append(all, p.status())
	}
	return all
}

// Manifest is the description of one backup that is being written. Its methods are not called concurrently.
type Manifest struct {
	ctx     context.Context //nolint:containedctx // what Begin was called with ends it
	keep    Keep
	writers []*writing // in the order of the configuration
}

// writing is one writer's part.
type writing struct {
	policy    *policy
	of        *Manifest
	manifest  manifestwriter.Manifest // nil when it could not begin
	artifacts []Artifact              // kept so far; only keep changes it, until the manifest has ended
	err       error                   // why it is left out
}

func (w *writing) begin(session *pluginhost.Session, backup []byte) (manifestwriter.Manifest, error) {
	settings := w.policy.settings
	if _, err := w.policy.find(session.Find, settings.Plugin, settings.Config); err != nil {
		return nil, err
	}
	writer, err := pluginhost.Named(session, kinds.ManifestWriter(), settings.Plugin)
	if err != nil {
		return nil, unavailable(w.policy.kind, settings.Plugin, err)
	}
	ctx := calls.WithDeadline(w.of.ctx, settings.Deadline.Std())
	return writer.Begin(ctx, manifestwriter.Input{Config: settings.Config.Bytes(), Backup: backup}, w.keep)
}

func (w *writing) keep(name string, content io.Reader) error {
	writer := w.policy.settings.Plugin
	if err := w.of.keep(writer, name, content); err != nil {
		return &notKeptError{err}
	}
	w.artifacts = append(w.artifacts, Artifact{Writer: writer, Name: name})
	return nil
}

// notKeptError says that an artifact could not be stored.
type notKeptError struct{ error }

func (e *notKeptError) Unwrap() error { return e.error }

// Add passes an item to the writers when it is written to the archive.
func (m *Manifest) Add(item *manifestwriter.Item) {
	for _, w := range m.writers {
		if w.err != nil {
			continue
		}
		if w.err = w.manifest.Add(item); w.err != nil {
			w.manifest.Abort()
		}
	}
}

// Written is the result of the manifest of one backup.
type Written struct {
	// Artifacts are the files that belong to the backup: those of the writers that did well.
	Artifacts []Artifact
	// Discarded are files that were kept for writers that failed afterwards.
	Discarded []Artifact
	// Warnings and Errors are the failures, as they are to appear in the backup.
	Warnings, Errors []error
}

// Artifact is a file that a writer wrote.
type Artifact struct {
	Writer string
	Name   string
}

// Finish is called when there are no more items. It waits for what the writers still write, and returns the result.
func (m *Manifest) Finish() Written {
	var finished sync.WaitGroup
	for _, w := range m.writers {
		if w.err == nil {
			finished.Go(func() { w.err = cmp.Or(w.manifest.Finish(), context.Cause(m.ctx)) })
		}
	}
	finished.Wait()
	var written Written
	claimed := map[string]string{} // writer by artifact
	for _, w := range m.writers {
		if w.err == nil {
			w.err = w.claim(claimed)
		}
		if w.err == nil {
			written.Artifacts = append(written.Artifacts, w.artifacts...)
		} else {
			written.Discarded = append(written.Discarded, w.artifacts...)
			if w.policy.settings.FailurePolicy == config.Fail {
				written.Errors = append(written.Errors, w.err)
			} else {
				written.Warnings = append(written.Warnings, w.err)
			}
		}
		if w.err == nil || m.ctx.Err() == nil { // that the backup was given up says nothing about a writer
			w.policy.health.report(w.err, w.policy.settings.Plugin)
		}
	}
	return written
}

// claim gives the names of the artifacts to the writer. It returns an error if one belongs to a writer that the configuration
// names earlier: which of two writers finishes first does not matter.
func (w *writing) claim(claimed map[string]string) error {
	plugin := versioning.NewPlugin(w.policy.kind, w.policy.settings.Plugin)
	for _, artifact := range w.artifacts {
		if other, taken := claimed[artifact.Name]; taken {
			return plugin.Reject(fmt.Errorf("it writes a file %s, as %s does, which is before it in backups.manifestWriters; "+
				"remove one of them", artifact.Name, other))
		}
	}
	for _, artifact := range w.artifacts {
		claimed[artifact.Name] = artifact.Writer
	}
	return nil
}

// Abort gives the manifest up, and waits until keep has returned. After Finish it does nothing.
func (m *Manifest) Abort() {
	for _, w := range m.writers {
		if w.manifest != nil {
			w.manifest.Abort()
		}
	}
}
