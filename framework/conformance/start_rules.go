package conformance

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
)

// startRule is the ID of the rule that fails if the process does not start.
const startRule = "process-handshake"

func startRules() []Rule {
	whole := []string{Process}
	return []Rule{
		{
			ID: startRule, Kinds: whole, Severity: Must, check: checkHandshake,
			Text: `Started with the magic cookie in its environment, the first output of the process on stdout is one handshake line: ` +
				`"1|2|unix or tcp|ADDRESS|grpc|". It then serves gRPC at that address.`,
		},
		{
			ID: "process-flags", Kinds: whole, Severity: Must, check: checkFlags,
			Text: "The process starts with any flags: hosts pass on their own flags, which differ between versions.",
		},
		{
			ID: "process-cookie", Kinds: whole, Severity: Should, check: checkCookie,
			Text: "Without the magic cookie in its environment, the process exits with a status other than 0 and says on stderr that it is a plugin.",
		},
		{
			ID: "process-health", Kinds: whole, Severity: Must, check: checkHealth,
			Text: `The gRPC health service answers SERVING for the service "plugin".`,
		},
		{
			ID: "process-unknown-method", Kinds: whole, Severity: Must, check: checkUnknownMethod,
			Text: "Unknown methods and services are answered with the status Unimplemented, by which a host finds out what a plugin serves.",
		},
	}
}

// needsProcess returns the process. It skips a rule if the plugin runs in this process.
func (s *subject) needsProcess(ctx context.Context) (*process.Process, error) {
	if _, err := s.conn(ctx); err != nil {
		return nil, err
	}
	if p := s.host.process(); p != nil {
		return p, nil
	}
	return nil, skip("the plugin runs in the process of the test")
}

// checkHandshake passes whenever the process was started, which includes the handshake.
func checkHandshake(ctx context.Context, s *subject) error {
	_, err := s.needsProcess(ctx)
	return err
}

func checkFlags(ctx context.Context, s *subject) error {
	if _, err := s.needsProcess(ctx); err != nil {
		return err
	}
	run, err := s.start(ctx, process.Launch{Args: []string{
		"--log-level=info", "--log-format", "json", "--features=EnableCSI", "--uploader-type=kopia",
		"--default-volumes-to-fs-backup=true", "--invented-later", "value", "--",
	}})
	if err != nil {
		return err
	}
	run.stop()
	return nil
}

func checkCookie(ctx context.Context, s *subject) error {
	if _, err := s.needsProcess(ctx); err != nil {
		return err
	}
	target, ok := s.target.(*binary)
	if !ok {
		return skip("the target is not a binary")
	}
	ctx, cancel := context.WithTimeout(ctx, process.EndTime)
	defer cancel()
	return target.byHand(ctx)
}

func checkHealth(ctx context.Context, s *subject) error {
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	if err != nil {
		return err
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("it answers %s", answer.GetStatus())
	}
	return nil
}

func checkUnknownMethod(ctx context.Context, s *subject) error {
	conn, err := s.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.call(ctx)
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
