package plugintest

import (
	"context"
	"encoding/json"
	"sync"

	"google.golang.org/grpc"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
)

// Option modifies how an implementation is called.
type Option func(*options)

type options struct{ config any }

// WithConfig sets the configuration of the implementation, as a host does. config is a value whose JSON is what users
// would write; for an ObjectStore or a VolumeSnapshotter it is a map[string]string. If it is invalid, the first call
// returns the error.
func WithConfig(config any) Option { return func(o *options) { o.config = config } }

// ValidateConfig validates a configuration of an implementation, as a host does when it starts, and returns problems as
// an *Error. kind is the name without a version, "QueueAdmission"; the newest version is asked.
func (p *Plugin) ValidateConfig(kind, name string, config any) error {
	p.t.Helper()
	newest := 0
	for _, one := range p.registered {
		if one.Kind == kind && one.Name == name {
			newest = max(newest, one.Version)
		}
	}
	asked := p.find(kind, max(newest, 1), name)
	answer, err := plugininfov1.NewPluginInfoServiceClient(p.conn).ValidateConfig(p.t.Context(),
		&plugininfov1.ValidateConfigRequest{
			Kind: kind, Version: int32(newest), Name: name, Config: p.json(config),
		})
	if err != nil {
		return asked.wrap(err)
	}
	return asked.problems(answer.GetProblems())
}

// json returns the JSON of a configuration; nil stays nil.
func (p *Plugin) json(config any) []byte {
	p.t.Helper()
	if config == nil {
		return nil
	}
	raw, err := json.Marshal(config)
	if err != nil {
		p.t.Fatalf("the configuration has no JSON: %v", err)
	}
	return raw
}

// location returns the configuration of a location.
func (p *Plugin) location(config any) map[string]string {
	p.t.Helper()
	values, ok := config.(map[string]string)
	if !ok && config != nil {
		p.t.Fatalf("the configuration of a location is a %T, want a map[string]string", config)
	}
	return values
}

func chosen(all []Option) options {
	var o options
	for _, option := range all {
		option(&o)
	}
	return o
}

// configured returns a connection that configures the implementation before its first call. Without a configuration it
// returns the plugin's connection.
func (p *Plugin) configured(to target, all []Option) grpc.ClientConnInterface {
	p.t.Helper()
	config := chosen(all).config
	if config == nil {
		return p.conn
	}
	raw := p.json(config)
	return &preparedConn{ClientConnInterface: p.conn, prepare: func(ctx context.Context) error {
		_, err := plugininfov1.NewPluginInfoServiceClient(p.conn).Configure(ctx, &plugininfov1.ConfigureRequest{
			Kind: to.kind, Version: int32(to.version), Name: to.name, Config: raw,
		})
		return err
	}}
}

// preparedConn calls prepare before other calls, until it has succeeded once.
type preparedConn struct {
	grpc.ClientConnInterface
	prepare func(ctx context.Context) error

	mu       sync.Mutex
	prepared bool
}

func (c *preparedConn) ready(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prepared {
		return nil
	}
	err := c.prepare(ctx)
	c.prepared = err == nil
	return err
}

// Invoke implements grpc.ClientConnInterface.
func (c *preparedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c *preparedConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// problems returns an error with the problems that a plugin reported about a configuration, or nil.
func (t target) problems(all []*plugininfov1.ConfigProblem) error {
	if len(all) == 0 {
		return nil
	}
	text := "config"
	for i, problem := range all {
		separator := ": "
		if i > 0 {
			separator = "; "
		}
		text += separator
		if problem.GetKey() != "" {
			text += problem.GetKey() + ": "
		}
		text += problem.GetMessage()
	}
	return t.invalid(text)
}
