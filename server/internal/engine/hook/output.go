package hook

import (
	"fmt"
	"strings"
	"sync"
)

// kept is the number of bytes of the beginning, and of the end, of an output that are kept.
const kept = 2 << 10

// output is a writer that keeps the beginning and the end of its input. It is safe for concurrent use.
type output struct {
	mu     sync.Mutex
	head   []byte
	tail   []byte // a ring after its first round
	next   int    // in the ring
	total  int64
	closed bool
}

// Write implements io.Writer. It never fails: the command continues, whatever it prints.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if o.closed {
		return n, nil
	}
	o.total += int64(n)
	if space := kept - len(o.head); space > 0 {
		space = min(space, len(p))
		o.head, p = append(o.head, p[:space]...), p[space:]
	}
	p = p[max(0, len(p)-kept):]
	if space := kept - len(o.tail); space > 0 {
		space = min(space, len(p))
		o.tail, p = append(o.tail, p[:space]...), p[space:]
	}
	for len(p) > 0 {
		copied := copy(o.tail[o.next:], p)
		o.next, p = (o.next+copied)%kept, p[copied:]
	}
	return n, nil
}

// close makes the output ignore later writes.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// String returns the kept bytes, with the number of omitted bytes in the middle.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := string(o.head)
	if left := o.total - int64(len(o.head)+len(o.tail)); left > 0 {
		text += fmt.Sprintf("\n... %d bytes are left out ...\n", left)
	}
	text += string(o.tail[o.next:]) + string(o.tail[:o.next])
	return strings.ToValidUTF8(text, "?")
}

// last returns the last line that is not empty.
func (o *output) last() string {
	text := strings.TrimSpace(o.String())
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
