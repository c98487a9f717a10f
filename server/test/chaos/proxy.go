package main

import (
	"io"
	"net"
	"net/url"
	"sync"
)

// mode is what a proxy does with its connections.
type mode int

const (
	pass   mode = iota
	refuse      // connections are closed
	hang        // connections stay open, and nothing passes
)

// proxy passes the bytes of connections on to another address on this machine.
type proxy struct {
	url      string
	target   string
	listener net.Listener

	mu     sync.Mutex
	mode   mode
	change chan struct{} // closed with the next change of mode
	open   map[net.Conn]bool
}

// newProxy returns a proxy for the address in a URL.
func newProxy(to string) (*proxy, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target.Host, listener: l, change: make(chan struct{}), open: map[net.Conn]bool{}}
	target.Host = l.Addr().String()
	p.url = target.String()
	go p.serve()
	return p, nil
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.handle(c)
	}
}

func (p *proxy) handle(c net.Conn) {
	defer func() { _ = c.Close() }() // usually the other side has closed it
	if !p.await() {
		return
	}
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = upstream.Close() }()
	p.track(c, true)
	defer p.track(c, false)
	go func() {
		_, _ = io.Copy(gated{p, upstream}, c)
		_ = upstream.Close()
	}()
	_, _ = io.Copy(gated{p, c}, upstream)
}

// gated is a writer that waits while the proxy hangs.
type gated struct {
	p    *proxy
	conn net.Conn
}

// Write implements io.Writer.
func (g gated) Write(b []byte) (int, error) {
	if !g.p.await() {
		return 0, net.ErrClosed
	}
	return g.conn.Write(b)
}

// await waits while the proxy hangs. It returns false if connections are refused.
func (p *proxy) await() bool {
	for {
		p.mu.Lock()
		now, change := p.mode, p.change
		p.mu.Unlock()
		if now != hang {
			return now == pass
		}
		<-change
	}
}

func (p *proxy) track(c net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.open[c] = true
	} else {
		delete(p.open, c)
	}
}

// set changes the mode. Open connections are closed if connections are refused from now on.
func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.change)
	p.change = make(chan struct{})
	if m == refuse {
		for c := range p.open {
			_ = c.Close()
		}
	}
}

func (p *proxy) close() {
	p.set(refuse)
	_ = p.listener.Close()
}
