package site

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// FreeAddress returns an address of the loopback interface at which nothing listens. No port of it is one that the kernel
// assigns to connections, by default: while a server does not listen there, some client would have it.
func FreeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if listener, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	require.Fail(t, "no port is free")
	return ""
}

// Wire is a TCP proxy that can be cut.
type Wire struct {
	to string
	at string // address

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	conns    map[net.Conn]bool
	flows    chan struct{} // closed unless the wire is silent
}

// WireTo starts a proxy in front of the server at address and returns it with the address of the proxy.
func WireTo(t *testing.T, address string) (w *Wire, proxied string) {
	t.Helper()
	server, err := url.Parse(address)
	require.NoError(t, err)
	w = &Wire{to: server.Host, at: FreeAddress(t), conns: map[net.Conn]bool{}, flows: make(chan struct{})}
	close(w.flows)
	require.NoError(t, w.Connect())
	t.Cleanup(func() {
		w.Speak()
		w.Refuse()
	})
	server.Host = w.at
	return w, server.String()
}

// Connect accepts connections again, at the same address.
func (w *Wire) Connect() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	listener, err := net.Listen("tcp", w.at)
	if err != nil {
		return err
	}
	w.listener = listener
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

// Refuse closes all connections and refuses new ones.
func (w *Wire) Refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.listener.Close()
	for conn := range w.conns {
		_ = conn.Close()
	}
}

// Hush stops the flow of data until Speak.
func (w *Wire) Hush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flows = make(chan struct{})
}

// Speak resumes the flow of data.
func (w *Wire) Speak() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.flows:
	default:
		close(w.flows)
	}
}

func (w *Wire) carry(here net.Conn) {
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
