package engine

import "sync"

// Count is the progress of a transfer.
type Count struct {
	BytesDone, BytesTotal int64
	FilesDone, FilesTotal int64
}

// Progress counts the data that a transfer has moved. The zero value is ready to use.
type Progress struct {
	mu      sync.Mutex
	count   Count
	begun   bool
	missing map[string]int64 // missing bytes of a file
}

// Count returns the progress of the transfer, and false while the total is unknown.
func (p *Progress) Count() (Count, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count, p.begun
}

// begin sets the total. Empty files are done at once.
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

// start makes the counts visible, after the data of an earlier attempt was counted.
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
