// Package library is a library for Velero plugins that behaves like Velero's own: it accepts the host's flags, logs
// JSON lines to stderr, and serves one gRPC service per kind, without PluginInfo. It is written from Velero's wire
// protocol. The plugins in the other directories build it with the go-plugin, gRPC and protobuf of their year. Start
// reading at server.go.
package library

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"

	plugin "github.com/hashicorp/go-plugin"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
)

// Initializer creates an implementation when it is called for the first time.
type Initializer func(log logrus.FieldLogger) (interface{}, error)

// Server is the server of a plugin program.
type Server struct {
	known    []kind
	flags    *pflag.FlagSet
	level    level
	features []string
	handlers map[string]*handlers
}

// NewServer returns a server that supports the given kinds.
func NewServer(known ...string) *Server {
	s := &Server{flags: pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError), level: level{logrus.InfoLevel},
		handlers: map[string]*handlers{}}
	for _, k := range kinds() {
		for _, name := range known {
			if k.name == name {
				s.known = append(s.known, k)
				s.handlers[name] = &handlers{kind: name, makers: map[string]Initializer{}, made: map[string]interface{}{}}
			}
		}
	}
	s.flags.Var(&s.level, "log-level", "log level")
	s.flags.StringSliceVar(&s.features, "features", nil, "features to enable")
	s.flags.String("log-format", "text", "format of the host's log")
	s.flags.StringP("namespace", "n", "velero", "namespace of the host")
	s.flags.String("kubeconfig", "", "path of the kubeconfig file")
	s.flags.String("plugin-dir", "/plugins", "directory of plugins")
	s.flags.Duration("default-backup-ttl", 0, "default TTL of backups")
	s.flags.Bool("restore-only", false, "disable backups")
	s.flags.ParseErrorsWhitelist.UnknownFlags = true
	return s
}

// Register adds an implementation of a kind.
func (s *Server) Register(kind, name string, maker Initializer) *Server {
	s.handlers[kind].makers[name] = maker
	return s
}

// Serve serves until the host ends the process. If the command line cannot be parsed, it returns without a handshake.
func (s *Server) Serve() {
	if err := s.flags.Parse(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "parse the command line: %v\n", err)
		return
	}
	log := newLogger(s.level.Level)
	log.WithField("features", strings.Join(s.features, ",")).Debug("stock plugin starts")
	for _, h := range s.handlers {
		h.log = log
	}
	plugins := map[string]plugin.Plugin{"PluginLister": &served{desc: listerDesc(), impl: s}}
	for _, k := range s.known {
		plugins[k.name] = &served{desc: k.desc(), impl: s.handlers[k.name]}
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 2, MagicCookieKey: "VELERO_PLUGIN",
			MagicCookieValue: "hello"},
		Plugins:    plugins,
		GRPCServer: plugin.DefaultGRPCServer,
	})
}

// served is a gRPC service of the program.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	desc *grpc.ServiceDesc
	impl interface{}
}

// GRPCServer registers the service.
func (s *served) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	server.RegisterService(s.desc, s.impl)
	return nil
}

// GRPCClient is only used by hosts.
func (s *served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (interface{}, error) {
	return nil, errors.New("a plugin has no gRPC client")
}

func listerDesc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{ServiceName: "generated.PluginLister", HandlerType: (*interface{})(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "ListPlugins",
			Handler: func(srv interface{}, _ context.Context, decode func(interface{}) error,
				_ grpc.UnaryServerInterceptor) (interface{}, error) {
				if err := decode(&Empty{}); err != nil {
					return nil, err
				}
				response := &ListPluginsResponse{}
				s := srv.(*Server)
				for _, k := range s.known {
					for _, name := range s.handlers[k.name].names() {
						response.Plugins = append(response.Plugins, &PluginIdentifier{Command: os.Args[0], Kind: k.name, Name: name})
					}
				}
				return response, nil
			},
		}}}
}

// handlers has the implementations of a kind.
type handlers struct {
	kind   string
	log    logrus.FieldLogger
	makers map[string]Initializer

	mu   sync.Mutex
	made map[string]interface{}
}

func (h *handlers) names() []string {
	var names []string
	for name := range h.makers {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (h *handlers) get(name string) (interface{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if made, ok := h.made[name]; ok {
		return made, nil
	}
	maker, ok := h.makers[name]
	if !ok {
		return nil, fmt.Errorf("%v plugin %s not found or has an invalid format", h.kind, name)
	}
	made, err := maker(h.log)
	if err != nil {
		return nil, err
	}
	h.made[name] = made
	return made, nil
}

// level is a flag for a logrus level.
type level struct{ logrus.Level }

func (l *level) Set(text string) (err error) {
	l.Level, err = logrus.ParseLevel(text)
	return err
}

func (l *level) Type() string { return "level" }
