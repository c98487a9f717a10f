package policy

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/cleat-dev/cleat/server/cli/status/serverreport"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// Manifests has the configured writers describe backups. It is safe for concurrent use.
type Manifests struct{ writers []*policy }

// Keep keeps what a writer writes until Manifest.Store. It is called for several writers at the same time, which may
// give their artifacts the same name. The rest is as with manifestwriter.Keep.
type Keep func(artifact Artifact, content io.Reader) error

// Artifact is a file that a writer wrote.
type Artifact struct {
	Writer string
	Name   string
}

// Begin has all writers describe one backup, which is JSON. It runs them in session, so that they log to the backup's
// log and stay the same even if their files are replaced. Each works at its own pace; one that fails is left out from
// then on, and Store reports it. The caller must call Finish or Abort before it closes session. The end of ctx aborts
// the manifest.
func (m *Manifests) Begin(ctx context.Context, session *pluginhost.Session, backup []byte, keep Keep) *Manifest {
	manifest := &Manifest{ctx: ctx}
	for _, p := range m.writers {
		manifest.writers = append(manifest.writers, beginWriting(ctx, p, session, backup, keep))
	}
	return manifest
}

// Any reports whether there are writers.
func (m *Manifests) Any() bool { return len(m.writers) > 0 }

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
	writers []*writing      // in the order of the configuration
	ended   bool
}

// Add passes an item to the writers when it is written to the archive, with its JSON to those that read it. The caller
// must not change the item any more. Add keeps nothing of object. It waits for a writer that has too many items to
// take, as long as its deadline in all.
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

// Finish is called when there are no more items. It waits until all writers have ended.
func (m *Manifest) Finish() {
	m.ended = true
	for _, w := range m.writers {
		w.close()
	}
	for _, w := range m.writers {
		<-w.ended
	}
}

// Abort gives the manifest up, and waits until all writers have ended. After Finish it does nothing.
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

// Store is called after Finish. It calls put with the artifacts of each writer that did well, which stores them. Of two
// writers with an artifact of the same name, the one that the configuration names first keeps it. Store returns the
// failures as they are to appear in the backup.
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
		if w.err == nil || m.ctx.Err() == nil { // that the backup was given up says nothing about a writer
			w.policy.health.report(w.err, w.policy.settings.Plugin)
		}
	}
	return warnings, errs
}
