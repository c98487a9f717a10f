package kopia

import (
	"context"
	"sync"

	"github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/object"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// A pack of kopia has up to 20 MB. It is read whole if this many bytes of it are wanted: a request for each small file
// in it would take longer. Another one is read ahead.
const (
	wantedOfPack = 2 << 20
	packsAhead   = 2 // with the one that is needed now
	// packsCached is the least size of a cache of data in which packs stay until their files are restored.
	packsCached = 200 << 20
)

// prefetch has the packs with the files of a snapshot read whole, once, before the first of these files is restored.
// What is read is in the cache of data then. kopia begins all directories before it restores files, so that it is known
// what is wanted of each pack.
type prefetch struct {
	repository *repository.Repository
	fetching   sync.WaitGroup

	mu    sync.Mutex
	packs map[blob.ID]*pack
	order []*pack // in which they are needed
}

// pack is a pack with files that are wanted.
type pack struct {
	at      int       // in order
	wanted  int64     // bytes
	any     object.ID // one of the files
	fetched chan struct{}
	started bool
}

var _ volume.Before = (*prefetch)(nil)

func newPrefetch(of *repository.Repository) *prefetch {
	return &prefetch{repository: of, packs: map[blob.ID]*pack{}}
}

// Directory implements volume.Before. It takes down what the files of a directory are in.
func (p *prefetch) Directory(ctx context.Context, of fs.Directory) error {
	entries, err := fs.GetAllEntries(ctx, of)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if id, in, bytes := p.find(ctx, entry); bytes > 0 {
			p.want(id, in, bytes)
		}
	}
	return nil
}

// find returns the pack of a file, and how many bytes the file has there; 0 unless it is in a single one.
func (p *prefetch) find(ctx context.Context, of fs.Entry) (id object.ID, in blob.ID, bytes int64) {
	file, ok := of.(object.HasObjectID)
	if !ok || of.IsDir() {
		return id, "", 0
	}
	id = file.ObjectID()
	content, _, ok := id.ContentID()
	if !ok {
		return id, "", 0
	}
	info, err := p.repository.ContentInfo(ctx, content)
	if err != nil {
		return id, "", 0 // the restore of the file reports it
	}
	return id, info.PackBlobID, int64(info.PackedLength)
}

func (p *prefetch) want(id object.ID, in blob.ID, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.packs[in]
	if known == nil {
		known = &pack{at: len(p.order), any: id, fetched: make(chan struct{})}
		p.packs[in] = known
		p.order = append(p.order, known)
	}
	known.wanted += bytes
}

// File implements volume.Before. It returns when the pack of a file was read, and has the next ones read.
func (p *prefetch) File(ctx context.Context, of fs.Entry) {
	_, in, bytes := p.find(ctx, of)
	if bytes == 0 {
		return
	}
	p.mu.Lock()
	now := p.packs[in]
	if now == nil || now.wanted < wantedOfPack {
		p.mu.Unlock()
		return
	}
	for ahead, next := 0, now.at; ahead < packsAhead && next < len(p.order); next++ {
		if one := p.order[next]; one.wanted >= wantedOfPack {
			p.start(ctx, one)
			ahead++
		}
	}
	p.mu.Unlock()
	<-now.fetched
}

// start has a pack read, unless it was before. Errors are those of the files in it.
func (p *prefetch) start(ctx context.Context, one *pack) {
	if one.started {
		return
	}
	one.started = true
	p.fetching.Go(func() {
		defer close(one.fetched)
		_, _ = p.repository.PrefetchObjects(ctx, []object.ID{one.any}, "blobs")
	})
}
