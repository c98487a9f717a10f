package announce

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

func startRules() []suite.Rule {
	whole := []string{suite.Process}
	return []suite.Rule{
		{
			ID: suite.StartRule, Kinds: whole, Check: checkHandshake,
			Text: `Started with the magic cookie in its environment, the first output of the process on stdout is one handshake line: ` +
				`"1|2|unix or tcp|ADDRESS|grpc|". It then serves gRPC at that address.`,
		},
		{
			ID: "process-flags", Kinds: whole, Check: checkFlags,
			Text: "The process starts with the flags of a server, which passes on its own.",
		},
		{
			ID: "process-cookie", Kinds: whole, Should: true, Check: checkCookie,
			Text: "Without the magic cookie in its environment, the process exits with a status other than 0 and says on " +
				"stderr that it is a plugin.",
		},
		{
			ID: "process-health", Kinds: whole, Check: checkHealth,
			Text: `The gRPC health service answers SERVING for the service "plugin".`,
		},
		{
			ID: "process-unknown-method", Kinds: whole, Check: checkUnknownMethod,
			Text: "Unknown methods and services are answered with the status Unimplemented, by which a host finds out what a " +
				"plugin serves.",
		},
	}
}

// checkHandshake passes whenever the process was started, which includes the handshake.
func checkHandshake(ctx context.Context, s *suite.Subject) error {
	_, err := s.NeedsProcess(ctx)
	return err
}

func checkFlags(ctx context.Context, s *suite.Subject) error {
	if _, err := s.NeedsProcess(ctx); err != nil {
		return err
	}
	run, err := s.Start(ctx, process.Launch{Args: []string{
		"--log-level=debug", "--log-format", "json", "--features=EnableCSI", "--uploader-type=kopia",
		"--default-volumes-to-fs-backup=true", "--plugin-dir=/plugins", "--namespace", "velero",
	}})
	if err != nil {
		return err
	}
	run.Stop()
	return nil
}

func checkCookie(ctx context.Context, s *suite.Subject) error {
	if _, err := s.NeedsProcess(ctx); err != nil {
		return err
	}
	target, ok := s.Target.(*suite.Binary)
	if !ok {
		return suite.Skip("the target is not a binary")
	}
	ctx, cancel := context.WithTimeout(ctx, s.EndTime)
	defer cancel()
	return target.ByHand(ctx)
}

func checkHealth(ctx context.Context, s *suite.Subject) error {
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	if err != nil {
		return err
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("it answers %s", answer.GetStatus())
	}
	return nil
}

func checkUnknownMethod(ctx context.Context, s *suite.Subject) error {
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	for _, method := range []string{"/generated.PluginLister/InventedLater", "/conformance.InventedLater/Ask"} {
		if err := conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unimplemented {
			return fmt.Errorf("%s is answered with %w", method, orOK(err))
		}
	}
	return nil
}

// orOK returns err, or an error with the status OK.
func orOK(err error) error {
	if err == nil {
		return fmt.Errorf("the status OK")
	}
	return err
}
