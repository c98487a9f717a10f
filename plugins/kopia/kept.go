package kopia

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kopia/kopia/repo/blob"

	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
)

const (
	// keptTime is how long a repository stays open after a call.
	keptTime = 2 * time.Minute
	// keptMost is how many repositories without a call stay open.
	keptMost = 2
)

// opened is an open repository.
type opened struct {
	*repository.Repository
	counted *storage.Counted // counts what is deleted

	key string // what it was opened with
	// While no call has it:
	since time.Time
	timer *time.Timer  // that closes it
	end   func() error // closes it
}

// kept has the open repositories that no call uses. To derive the key of a repository from its password takes more time
// and memory than a backup of a small volume without changes.
type kept struct {
	mu   sync.Mutex
	free []*opened // the longest unused one first
}

// keyOf returns what a repository is opened with, as one text: its address, its password, its settings, and the blob
// that another repository at the same place, or one with another password, has in a different form.
func keyOf(ctx context.Context, r dmv1.Repository, cacheMB int, st blob.Storage) (string, error) {
	format, err := repository.Format(ctx, st)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal([]any{r.Provider, r.Config, r.Path, r.Password, r.ReadOnly, cacheMB, format})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// open opens the repository in a storage, and owns the storage from then on. The repository outlasts ctx.
func open(ctx context.Context, st *storage.Counted, key string, options repository.Options) (*opened, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	o := &opened{counted: st, key: key}
	var err error
	if o.Repository, err = repository.Open(lasting, o.counted, options); err != nil {
		stop()
		cancel()
		return nil, err
	}
	if !stop() {
		return nil, errors.Join(context.Cause(ctx), o.Close(lasting))
	}
	return o, nil
}

// take returns an open repository, with all that others have written to it; nil if there is none.
func (k *kept) take(ctx context.Context, key string) *opened {
	k.mu.Lock()
	i := slices.IndexFunc(k.free, func(o *opened) bool { return o.key == key })
	if i < 0 {
		k.mu.Unlock()
		return nil
	}
	o := k.remove(i)
	k.mu.Unlock()
	if err := o.Refresh(ctx); err != nil {
		_ = o.Close(ctx) // nothing was written, and opening it anew reports what is wrong
		return nil
	}
	return o
}

// put keeps a repository open.
func (k *kept) put(ctx context.Context, o *opened) {
	lasting := context.WithoutCancel(ctx)
	k.mu.Lock()
	o.since, o.end = time.Now(), func() error { return o.Close(lasting) }
	o.timer = time.AfterFunc(keptTime, func() { k.closeIdle(o) })
	k.free = append(k.free, o)
	var oldest *opened
	if len(k.free) > keptMost {
		oldest = k.remove(0)
	}
	k.mu.Unlock()
	if oldest != nil {
		_ = oldest.end() // its calls have written all
	}
}

// remove removes a repository from those that no call uses. The caller holds mu.
func (k *kept) remove(i int) *opened {
	o := k.free[i]
	k.free = slices.Delete(k.free, i, i+1)
	o.timer.Stop()
	return o
}

// close closes all repositories.
func (k *kept) close() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.free) > 0 {
		err = errors.Join(err, k.remove(0).end())
	}
	return err
}

// closeIdle closes a repository that no call has used for keptTime.
func (k *kept) closeIdle(o *opened) {
	k.mu.Lock()
	i := slices.Index(k.free, o)
	over := i >= 0 && time.Since(o.since) >= keptTime // otherwise it was used meanwhile
	if over {
		k.remove(i)
	}
	k.mu.Unlock()
	if over {
		_ = o.end() // its calls have written all
	}
}
