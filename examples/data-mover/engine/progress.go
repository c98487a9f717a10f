package engine

import "sync"

// Count is how far a transfer is.
type Count struct {
	BytesDone, BytesTotal int64
	FilesDone, FilesTotal int64
}

// Progress counts what a transfer has moved. The zero value is ready to use.
type Progress struct {
	mu      sync.Mutex
	count   Count
	begun   bool
	missing map[string]int64 // bytes that a file still lacks
}

// Count returns how far the transfer is, and false as long as it is not known what there is to move.
func (p *Progress) Count() (Count, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count, p.begun
}

// begin sets what there is to move. Empty files are done at once.
func (p *Progress) begin(entries []entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.missing = Count{}, map[string]int64{}
	for _, e := range entries {
		if !e.Mode.IsRegular() {
			continue
		}
		p.count.FilesTotal++
		p.count.BytesTotal += e.Size
		if e.Size == 0 {
			p.count.FilesDone++
		} else {
			p.missing[e.Path] = e.Size
		}
	}
}

// start makes the counts visible, once what an earlier attempt has moved is counted.
func (p *Progress) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
}

// moved counts bytes of a file.
func (p *Progress) moved(path string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count.BytesDone += bytes
	if p.missing[path] -= bytes; p.missing[path] == 0 {
		p.count.FilesDone++
	}
}
