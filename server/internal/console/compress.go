package console

import (
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// compress compresses answers. The parts of an open page are compressed one by one, without a memory of what was sent
// before: a hundred open pages would need a hundred megabytes for it.
func compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		c := &compressed{ResponseWriter: w, level: gzip.DefaultCompression}
		if accepts(r, "text/event-stream") {
			c.level = gzip.StatelessCompression
		}
		defer c.close()
		next.ServeHTTP(c, r)
	})
}

var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.DefaultCompression) // the level is valid
	return w
}}

// compressed is an answer that is compressed, unless it has no content.
type compressed struct {
	http.ResponseWriter
	level int
	zip   *gzip.Writer // nil before the head is written, and if the answer is not compressed
	begun bool
}

// Unwrap is for http.ResponseController.
func (c *compressed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *compressed) WriteHeader(code int) {
	empty := code == http.StatusNoContent || code == http.StatusNotModified
	if !c.begun && !empty && c.Header().Get("Content-Encoding") == "" {
		c.Header().Set("Content-Encoding", "gzip")
		c.Header().Del("Content-Length")
		if c.level == gzip.DefaultCompression {
			c.zip, _ = writers.Get().(*gzip.Writer) // nothing else is in the pool
			c.zip.Reset(c.ResponseWriter)
		} else {
			c.zip, _ = gzip.NewWriterLevel(c.ResponseWriter, c.level) // the level is valid
		}
	}
	c.begun = true
	c.ResponseWriter.WriteHeader(code)
}

func (c *compressed) Write(data []byte) (int, error) {
	if !c.begun {
		c.WriteHeader(http.StatusOK)
	}
	if c.zip == nil {
		return c.ResponseWriter.Write(data)
	}
	return c.zip.Write(data)
}

// FlushError sends what was written.
func (c *compressed) FlushError() error {
	if c.zip != nil {
		if err := c.zip.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

func (c *compressed) close() {
	if c.zip == nil {
		return
	}
	_ = c.zip.Close() // the answer has ended, complete or not
	if c.level == gzip.DefaultCompression {
		writers.Put(c.zip)
	}
}
