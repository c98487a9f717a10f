package process

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// window is how many bytes of a stream the plugin may send ahead. It is smaller than a large object, so that the plugin
// notices when the host stops reading.
const window = 1 << 19

// Dial opens the connection to a plugin, without a limit on the size of messages. It does not use TLS if config is nil.
// which then do not grow
func Dial(config *tls.Config, connect func(context.Context) (net.Conn, error)) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return connect(ctx) }),
		grpc.WithTransportCredentials(transport),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(16<<20), // which then do not grow
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, fmt.Errorf("connect to the plugin: %w", err)
	}
	return conn, nil
}
