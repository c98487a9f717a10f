package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// callInit calls Init of an ObjectStore or a VolumeSnapshotter with a field that the plugin does not know. A host adds an empty
// prefix to the config of a store, and so does callInit.
func (s *subject) callInit(ctx context.Context, conn *grpc.ClientConn, config map[string]string) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	if s.kind == "VolumeSnapshotter" {
		_, err := volumesnapshotterv1.NewVolumeSnapshotterClient(conn).Init(ctx,
			wire.WithUnknown(&volumesnapshotterv1.VolumeSnapshotterInitRequest{Plugin: s.name, Config: config}))
		return err
	}
	given := map[string]string{"prefix": ""}
	maps.Copy(given, config)
	_, err := objectstorev1.NewObjectStoreClient(conn).Init(ctx, wire.WithUnknown(&objectstorev1.ObjectStoreInitRequest{Plugin: s.name, Config: given}))
	return err
}

// needsConfig skips a rule that needs a config of the caller.
func (s *subject) needsConfig() error {
	config := s.configOf(s.name)
	switch {
	case config == nil:
		return skip("it has no config")
	case s.kind == "ObjectStore" && config["bucket"] == "":
		return skip(`it has no config with the key "bucket"`)
	}
	return nil
}

// initialised returns the connection to a process whose Init was called with the caller's config.
func (s *subject) initialised(ctx context.Context) (*grpc.ClientConn, error) {
	conn, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if s.host.configured == conn {
		return conn, nil
	}
	if err := s.callInit(ctx, conn, s.configOf(s.name)); err != nil {
		return nil, err
	}
	s.host.configured = conn
	return conn, nil
}

// needsInit skips a rule that needs a plugin that accepts its config.
func (s *subject) needsInit(ctx context.Context) (*grpc.ClientConn, error) {
	if err := s.needsService(ctx); err != nil {
		return nil, err
	}
	conn, err := s.initialised(ctx)
	if err == nil {
		return conn, nil
	}
	if s.configOf(s.name) == nil {
		return nil, skip("it has no config, and Init of none answers an error: %v", err)
	}
	return nil, skip("Init of the config that was given answers an error: %v", err)
}

// fresh returns the connection to a process whose Init was not called.
func (s *subject) fresh(ctx context.Context) (*grpc.ClientConn, error) {
	if err := s.needsService(ctx); err != nil {
		return nil, err
	}
	s.host.stop()
	return s.conn(ctx)
}

// checkConfigMissing checks incomplete configs, each in a new process.
func checkConfigMissing(configs ...map[string]string) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		for _, config := range configs {
			conn, err := s.fresh(ctx)
			if err != nil {
				return err
			}
			if err := s.callInit(ctx, conn, config); hung(err) || panicked(err) {
				return fmt.Errorf("call of Init with the config %v: %w", config, err)
			}
		}
		return nil
	}
}

func checkConfigUnknown(ctx context.Context, s *subject) error {
	if _, err := s.needsInit(ctx); err != nil {
		return err
	}
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	config := map[string]string{"conformanceUnknown": "value"}
	maps.Copy(config, s.configOf(s.name))
	if err := s.callInit(ctx, conn, config); err != nil {
		return notHung(err)
	}
	return errors.New(`the key "conformanceUnknown" is taken without a word`)
}

func checkInit(ctx context.Context, s *subject) error {
	if err := s.needsConfig(); err != nil {
		return err
	}
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	if err := s.callInit(ctx, conn, s.configOf(s.name)); err != nil {
		return err
	}
	s.host.stop()
	return nil
}
