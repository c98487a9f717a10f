package main

import (
	"io"
	"net"
	"net/url"
	"time"
)

// slowProxy passes connections on to an address on this machine, and has each answer arrive some time later, as from a
// server that is far away. Its bandwidth has no limit.
type slowProxy struct {
	url      string
	target   string
	delay    time.Duration
	listener net.Listener
}

// newSlowProxy returns a proxy for the address in a URL. The caller must close its listener.
func newSlowProxy(to string, delay time.Duration) (*slowProxy, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &slowProxy{target: target.Host, delay: delay, listener: l}
	target.Host = l.Addr().String()
	p.url = target.String()
	go p.serve()
	return p, nil
}

func (p *slowProxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.handle(c)
	}
}

// part is what has arrived at a time.
type part struct {
	at   time.Time
	data []byte
}

func (p *slowProxy) handle(c net.Conn) {
	defer func() { _ = c.Close() }() // usually the other side has closed it
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = upstream.Close() }()
	go func() {
		_, _ = io.Copy(upstream, c)
		_ = upstream.Close()
	}()
	parts := make(chan part, 1000)
	go func() {
		defer close(parts)
		for {
			data := make([]byte, 64<<10)
			n, err := upstream.Read(data)
			if n > 0 {
				parts <- part{time.Now(), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for next := range parts { // until the reader has ended
		if failed {
			continue
		}
		time.Sleep(time.Until(next.at.Add(p.delay)))
		if _, err := c.Write(next.data); err != nil {
			failed = true
			_ = upstream.Close()
		}
	}
}
