package policy

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// Manifests calls the configured writers to describe backups. It is safe for concurrent use.
type Manifests struct{ writers []*policy }

// Keep stores what a writer writes until Manifest.Store. It is called for several writers at the same time, and they
// may give their artifacts the same name. Otherwise see manifestwriter.Keep.
type Keep func(artifact Artifact, content io.Reader) error

// Artifact is a file that a writer wrote.
type Artifact struct {
	Writer string
	Name   string
}

// Begin starts all writers for one backup, which is JSON. They run in session, so that they log to the backup's log
// and stay the same even if their files are replaced. The writers do not wait for each other; a failed one gets no
// more items, and Store reports it. The caller must call Finish or Abort before it closes session. The end of ctx
// aborts the manifest.
func (m *Manifests) Begin(ctx context.Context, session *pluginhost.Session, backup []byte, keep Keep) *Manifest {
	manifest := &Manifest{ctx: ctx}
	for _, p := range m.writers {
		manifest.writers = append(manifest.writers, beginWriting(ctx, p, session, backup, keep))
	}
	return manifest
}

// Any reports whether there are writers.
func (m *Manifests) Any() bool { return len(m.writers) > 0 }

// Status returns the state of each writer.
func (m *Manifests) Status() []serverreport.Policy {
	var all []serverreport.Policy
	for _, p := range m.writers {
		all = append(all, p.status())
	}
	return all
}

// Manifest is the description of one backup that is being written. Its methods are not called concurrently.
type Manifest struct {
	ctx     context.Context //nolint:containedctx // the context of Begin ends it
	writers []*writing      // in the order of the configuration
	ended   bool
}

// Add passes an item to the writers when it is written to the archive, with its JSON for the writers that read it. The
// caller must not change the item any more. Add does not retain object. If a writer has too many waiting items, Add
// waits for it, in total for its deadline.
func (m *Manifest) Add(item *manifestwriter.Item, object []byte) {
	var whole *manifestwriter.Item
	for _, w := range m.writers {
		if !w.gets(item.Group, item.Resource) {
			w.add(item)
			continue
		}
		if whole == nil {
			copied := *item
			copied.Object = bytes.Clone(object)
			whole = &copied
		}
		w.add(whole)
	}
}

// Finish ends the items. It waits until all writers have ended.
func (m *Manifest) Finish() {
	m.ended = true
	for _, w := range m.writers {
		w.close()
	}
	for _, w := range m.writers {
		<-w.ended
	}
}

// Abort aborts the manifest, and waits until all writers have ended. After Finish it does nothing.
func (m *Manifest) Abort() {
	if m.ended {
		return
	}
	for _, w := range m.writers {
		w.cancel(errAborted)
	}
	m.Finish()
}

var errAborted = errors.New("the backup was given up")

// Store is called after Finish. It calls put for each successful writer with its artifacts. If two writers have an
// artifact of the same name, the first in the configuration gets it. Store returns the failures for the results of the
// backup.
func (m *Manifest) Store(put func(artifacts []Artifact) error) (warnings, errs []error) {
	claimed := map[string]string{} // writer by artifact
	for _, w := range m.writers {
		if w.err == nil {
			w.err = w.claim(claimed)
		}
		if w.err == nil && len(w.artifacts) > 0 {
			if err := put(w.artifacts); err != nil {
				w.err = w.plugin().Wrap(&notKeptError{err})
			}
		}
		switch {
		case w.err == nil:
		case w.policy.settings.FailurePolicy == config.Fail:
			errs = append(errs, w.err)
		default:
			warnings = append(warnings, w.err)
		}
		if w.err == nil || m.ctx.Err() == nil { // if the backup was aborted, the error is not the writer's
			w.policy.health.report(w.err, w.policy.settings.Plugin)
		}
	}
	return warnings, errs
}
