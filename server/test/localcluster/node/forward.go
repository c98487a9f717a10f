package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Forward connects each client of a listener with a server, until the listener is closed.
func Forward(listener net.Listener, network, address string) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // too many open files, for example
			continue
		}
		go func() {
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				return
			}
			join(client, server)
		}()
	}
}

// join copies the data of two connections to each other, and closes both at the end.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			if half, ok := way[1].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			} else {
				_ = way[1].Close()
			}
		})
	}
	both.Wait()
	_ = a.Close()
	_ = b.Close()
}

// serveProxy is an HTTP proxy for the method CONNECT, through which the API server connects to the kubelet and to
// pods.
func serveProxy(listener net.Listener) error {
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect {
				http.Error(w, "want CONNECT", http.StatusMethodNotAllowed)
				return
			}
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			target, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Host)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				_ = target.Close()
				return
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
				_ = target.Close()
				_ = conn.Close()
				return
			}
			join(begun{conn, buffered}, target)
		})}
	return server.Serve(listener)
}

// begun is a connection of which some bytes were already read.
type begun struct {
	net.Conn
	buffered io.Reader
}

func (b begun) Read(p []byte) (int, error) { return b.buffered.Read(p) }
