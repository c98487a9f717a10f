package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	vsv1 "github.com/cleat-dev/cleat/framework/volumesnapshotter/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// plugin is an ObjectStore or a VolumeSnapshotter.
type plugin struct{ *suite.Subject }

// with adapts a check that calls Init by itself.
func with(check func(context.Context, *plugin) error) suite.Check {
	return func(ctx context.Context, s *suite.Subject) error { return check(ctx, &plugin{s}) }
}

// callInit calls Init of an ObjectStore or a VolumeSnapshotter with a field that the plugin does not know. A host adds
// an empty prefix to the config of a store, and so does callInit.
func (s *plugin) callInit(ctx context.Context, conn *grpc.ClientConn, config map[string]string) error {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	if s.Kind == vsv1.Kind().Wire {
		_, err := volumesnapshotterv1.NewVolumeSnapshotterClient(conn).Init(ctx,
			wire.WithUnknown(&volumesnapshotterv1.VolumeSnapshotterInitRequest{Plugin: s.Name, Config: config}))
		return err
	}
	given := map[string]string{"prefix": ""}
	maps.Copy(given, config)
	_, err := objectstorev1.NewObjectStoreClient(conn).Init(ctx,
		wire.WithUnknown(&objectstorev1.ObjectStoreInitRequest{Plugin: s.Name, Config: given}))
	return err
}

// needsConfig skips a rule that needs a config of the caller.
func (s *plugin) needsConfig() error {
	config := s.Config()
	switch {
	case config == nil:
		return suite.Skip("no config is given for it, see WithConfig and --config")
	case s.Kind == osv1.Kind().Wire && config["bucket"] == "":
		return suite.Skip(`no config with the key "bucket" is given for it, see WithConfig and --config`)
	}
	return nil
}

// initialised returns the connection to a process whose Init was called with the caller's config.
func (s *plugin) initialised(ctx context.Context) (*grpc.ClientConn, error) {
	return s.Host.Prepare(ctx, func(conn *grpc.ClientConn) error { return s.callInit(ctx, conn, s.Config()) })
}

// needsInit skips a rule that needs a plugin that accepts its config.
func (s *plugin) needsInit(ctx context.Context) (*grpc.ClientConn, error) {
	if err := s.NeedsService(ctx); err != nil {
		return nil, err
	}
	conn, err := s.initialised(ctx)
	if err == nil {
		return conn, nil
	}
	if s.Config() == nil {
		return nil, suite.Skip("no config is given for it, and Init without one answers an error: %v", err)
	}
	return nil, suite.Skip("Init of the config that was given answers an error: %v", err)
}

// fresh returns the connection to a process whose Init was not called.
func (s *plugin) fresh(ctx context.Context) (*grpc.ClientConn, error) {
	if err := s.NeedsService(ctx); err != nil {
		return nil, err
	}
	s.Host.Stop()
	return s.Conn(ctx)
}

// checkConfigMissing checks incomplete configs, each in a new process.
func checkConfigMissing(configs ...map[string]string) func(context.Context, *plugin) error {
	return func(ctx context.Context, s *plugin) error {
		for _, config := range configs {
			conn, err := s.fresh(ctx)
			if err != nil {
				return err
			}
			if err := s.callInit(ctx, conn, config); suite.Hung(err) || suite.Panicked(err) {
				return fmt.Errorf("call of Init with the config %v: %w", config, err)
			}
		}
		return nil
	}
}

func checkConfigUnknown(ctx context.Context, s *plugin) error {
	if _, err := s.needsInit(ctx); err != nil {
		return err
	}
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	config := map[string]string{sample.UnknownKey: "value"}
	maps.Copy(config, s.Config())
	if err := s.callInit(ctx, conn, config); err != nil {
		return suite.NotHung(err)
	}
	return errors.New(`the key "conformanceUnknown" is taken without a word`)
}

func checkInit(ctx context.Context, s *plugin) error {
	if err := s.needsConfig(); err != nil {
		return err
	}
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	err = s.callInit(ctx, conn, s.Config())
	if err != nil && suite.NotHung(err) == nil && !s.ConfigIsItsOwn() {
		return suite.Skip("it refuses the config that was given for several kinds; give it one of its own, for %s/%s: %v",
			s.Kind, s.Name, err)
	}
	if err != nil {
		return err
	}
	s.Host.Stop()
	return nil
}
