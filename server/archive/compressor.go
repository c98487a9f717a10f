package archive

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
)

// compressor makes one gzip stream of batches, several of which are compressed at the same time.
type compressor struct {
	todo  chan *batch // to be compressed
	queue chan *batch // the same, to be written in this order
	free  sync.Pool

	work   sync.WaitGroup
	writer sync.WaitGroup

	mu  sync.Mutex
	err error
}

// gzipHeader says deflate, no name, no time, unknown operating system.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// lastBlock is an empty deflate block that ends the stream.
const lastBlock = "\x01\x00\x00\xff\xff"

// maxCompressors bounds the memory that compression takes, at about 1 MiB each.
const maxCompressors = 4

func newCompressor(w io.Writer) (*compressor, error) {
	deflaters := make([]*flate.Writer, min(maxCompressors, runtime.GOMAXPROCS(0)))
	for i := range deflaters {
		var err error
		if deflaters[i], err = flate.NewWriter(io.Discard, flate.DefaultCompression); err != nil {
			return nil, fmt.Errorf("set up compression: %w", err)
		}
	}
	c := &compressor{todo: make(chan *batch, len(deflaters)), queue: make(chan *batch, 4*len(deflaters))}
	for _, z := range deflaters {
		c.work.Go(func() { c.compress(z) })
	}
	c.writer.Go(func() { c.write(w) })
	return c, nil
}

// batch is an empty one.
func (c *compressor) batch() *batch {
	if b, ok := c.free.Get().(*batch); ok {
		return b
	}
	return &batch{plain: make([]byte, 0, window), done: make(chan struct{}, 1)}
}

// add takes over a batch. It waits while too many are under way.
func (c *compressor) add(b *batch) {
	c.queue <- b
	c.todo <- b
}

// failure is the error that broke the stream, if any.
func (c *compressor) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *compressor) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// close ends the stream. Nothing may be added any more.
func (c *compressor) close() error {
	close(c.todo)
	close(c.queue)
	c.work.Wait()
	c.writer.Wait()
	return c.failure()
}

func (c *compressor) compress(z *flate.Writer) {
	for b := range c.todo {
		if err := b.compress(z); err != nil {
			c.fail(err)
		}
		b.done <- struct{}{}
	}
}

// write writes the batches in order, and what gzip has around them.
func (c *compressor) write(w io.Writer) {
	put := func(p []byte) {
		if c.failure() != nil {
			return
		}
		if _, err := w.Write(p); err != nil {
			c.fail(fmt.Errorf("write the archive: %w", err))
		}
	}
	put([]byte(gzipHeader))
	var sum, size uint32
	for b := range c.queue {
		<-b.done
		put(b.out.Bytes())
		b.each(func(piece []byte) {
			sum = crc32.Update(sum, crc32.IEEETable, piece)
			size += uint32(len(piece))
		})
		if b.reset(); cap(b.plain) == window && b.out.Cap() <= 2*window {
			c.free.Put(b)
		}
	}
	end := binary.LittleEndian.AppendUint32([]byte(lastBlock), sum)
	put(binary.LittleEndian.AppendUint32(end, size))
}
