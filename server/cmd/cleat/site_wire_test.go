package main_test

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire is a TCP proxy that can be cut.
type wire struct {
	to string
	at string // address

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	conns    map[net.Conn]bool
	flows    chan struct{} // closed unless the wire is silent
}

// wireTo starts a proxy in front of the server at address and returns it with the address of the proxy.
func wireTo(t *testing.T, address string) (w *wire, proxied string) {
	t.Helper()
	server, err := url.Parse(address)
	require.NoError(t, err)
	w = &wire{to: server.Host, at: "127.0.0.1:0", conns: map[net.Conn]bool{}, flows: make(chan struct{})}
	close(w.flows)
	require.NoError(t, w.connect())
	t.Cleanup(func() {
		w.speak()
		w.refuse()
	})
	server.Host = w.at
	return w, server.String()
}

// connect accepts connections again, at the same address.
func (w *wire) connect() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	listener, err := net.Listen("tcp", w.at)
	if err != nil {
		return err
	}
	w.listener, w.at = listener, listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go w.carry(conn)
		}
	}()
	return nil
}

// refuse closes all connections and refuses new ones.
func (w *wire) refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.listener.Close()
	for conn := range w.conns {
		_ = conn.Close()
	}
}

// hush lets nothing pass until speak.
func (w *wire) hush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flows = make(chan struct{})
}

func (w *wire) speak() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.flows:
	default:
		close(w.flows)
	}
}

func (w *wire) carry(here net.Conn) {
	there, err := net.Dial("tcp", w.to)
	if err != nil {
		_ = here.Close()
		return
	}
	w.mu.Lock()
	w.conns[here], w.conns[there] = true, true
	w.mu.Unlock()
	copying := func(to, from net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			w.mu.Lock()
			flows := w.flows
			w.mu.Unlock()
			<-flows
			if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
				_ = to.Close()
				return
			}
		}
	}
	go copying(here, there)
	copying(there, here)
	_ = here.Close()
	w.mu.Lock()
	delete(w.conns, here)
	delete(w.conns, there)
	w.mu.Unlock()
}
