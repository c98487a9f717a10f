package policy

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/queue"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
)

func soothingRules() []suite.Rule {
	kinds := []string{lsv1.Kind().Wire}
	return []suite.Rule{
		{
			ID: "soothing-decides", Kinds: kinds, Check: with(checkSoothingDecides),
			Text: "Admit answers about any load: with no loads in preparation, as many as the limit, or more; on 1,000 nodes; " +
				"with and without a limit or a node.",
		},
		{
			ID: "soothing-reason", Kinds: kinds, Check: with(judgedLoads(judgeReason)),
			Text: "The reason for a load that is not admitted is one line of at most 1024 bytes.",
		},
		{
			ID: "soothing-retry", Kinds: kinds, Check: with(judgedLoads(judgeRetry)),
			Text: "retry_after of a load that is not admitted is absent, or between zero and an hour.",
		},
		{
			ID: "soothing-empty", Kinds: kinds, Check: with(checkSoothingEmpty),
			Text: "A request without a load, which node agents do not send, is answered. The process does not exit.",
		},
	}
}

// loads returns requests of all sorts. The first is the usual one.
func (s *policy) loads(config []byte) []*loadsoothingv1.AdmitRequest {
	request := func(limit, nodes, each, ahead int, node string) *loadsoothingv1.AdmitRequest {
		request := &loadsoothingv1.AdmitRequest{
			Plugin: s.Name, Config: config, Now: queue.Moment(0), Limit: int32(limit),
			Load: &loadsoothingv1.Load{Kind: "DataUpload", Name: "load", Node: node, Created: queue.Moment(time.Minute),
				Ahead: int32(ahead)},
		}
		kinds := []string{"DataUpload", "DataDownload", "PodVolumeBackup", "PodVolumeRestore"}
		for i := range nodes {
			request.Counts = append(request.Counts, &loadsoothingv1.Count{
				Kind: kinds[i%len(kinds)], Node: fmt.Sprintf("node-%d", i), Accepted: int32(each), Prepared: int32(each / 2),
			})
		}
		return request
	}
	return []*loadsoothingv1.AdmitRequest{
		request(10, 2, 1, 0, "node-1"),
		request(10, 0, 0, 0, ""),
		request(2, 4, 1, 7, "node-3"),
		request(2, 4, 9, 0, "node-9"),
		request(0, 3, 2, 1, "node-1"),
		request(1, 1000, 3, 500, "node-7"),
		movedLoad(request(10, 2, 1, 0, "node-1"), 12*time.Hour),
		movedLoad(request(10, 2, 1, 0, "node-1"), 60*time.Hour),
		behindRestores(request(10, 2, 1, 3, "node-1"), 4),
		behindRestores(request(2, 1, 1, 0, ""), 500),
	}
}

// behindRestores returns a request about a load beside which loads of restores wait.
func behindRestores(request *loadsoothingv1.AdmitRequest, waiting int32) *loadsoothingv1.AdmitRequest {
	request.Load.RestoresWaiting = waiting
	return request
}

func soothingPolicy() calls {
	return calls{
		asked: func(s *policy, config []byte) []proto.Message {
			var all []proto.Message
			for _, request := range s.loads(config) {
				all = append(all, request)
			}
			return all
		},
		newer: func(s *policy, config []byte) proto.Message {
			request := wire.WithUnknown(s.loads(config)[0])
			request.Load.Kind = "InventedLater"
			wire.WithUnknown(request.GetLoad())
			return request
		},
		moved: func(request proto.Message, d time.Duration) proto.Message {
			if asked, ok := request.(*loadsoothingv1.AdmitRequest); ok {
				return movedLoad(asked, d)
			}
			return request
		},
		decide: func(ctx context.Context, s *policy, request proto.Message) (proto.Message, error) {
			asked, ok := request.(*loadsoothingv1.AdmitRequest)
			if !ok {
				return nil, fmt.Errorf("%T is not a load", request)
			}
			return s.admit(ctx, asked)
		},
	}
}

func (s *policy) admit(
	ctx context.Context, request *loadsoothingv1.AdmitRequest,
) (*loadsoothingv1.AdmitResponse, error) {
	conn, err := s.Conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Call(ctx)
	defer cancel()
	return loadsoothingv1.NewLoadSoothingServiceClient(conn).Admit(ctx, request)
}

// aboutLoad adds the load that a policy was asked about to err.
func aboutLoad(request *loadsoothingv1.AdmitRequest, err error) error {
	return fmt.Errorf("with the limit %d, %d counts and %d loads ahead: %w",
		request.GetLimit(), len(request.GetCounts()), request.GetLoad().GetAhead(), err)
}

func checkSoothingDecides(ctx context.Context, s *policy) error {
	all, err := s.firstDecisions(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if request, ok := one.request.(*loadsoothingv1.AdmitRequest); ok && one.err != nil {
			return aboutLoad(request, one.err)
		}
	}
	return nil
}

// judgedLoads returns a check of all answers that make a load wait. The check is skipped if there are none.
func judgedLoads(by func(*loadsoothingv1.AdmitResponse) error) func(context.Context, *policy) error {
	return func(ctx context.Context, s *policy) error {
		all, err := s.firstDecisions(ctx)
		if err != nil {
			return err
		}
		waited := false
		for _, one := range all {
			request, _ := one.request.(*loadsoothingv1.AdmitRequest)
			response, _ := one.answer.(*loadsoothingv1.AdmitResponse)
			switch {
			case suite.Hung(one.err):
				return aboutLoad(request, one.err)
			case one.err != nil, response.GetAdmitted():
				continue
			}
			waited = true
			if err := by(response); err != nil {
				return aboutLoad(request, err)
			}
		}
		if !waited {
			return suite.Skip("no load had to wait; give a config with which some have to")
		}
		return nil
	}
}

func judgeReason(decided *loadsoothingv1.AdmitResponse) error {
	output, _ := lsv1.DecodeOutput(decided) // judgeRetry has the error
	return output.ValidateReason()
}

func judgeRetry(decided *loadsoothingv1.AdmitResponse) error {
	output, err := lsv1.DecodeOutput(decided)
	if err != nil {
		return err
	}
	return output.ValidateRetryAfter()
}

func checkSoothingEmpty(ctx context.Context, s *policy) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	if _, err = s.admit(ctx, &loadsoothingv1.AdmitRequest{Plugin: s.Name, Config: config}); suite.Hung(err) ||
		suite.Panicked(err) {
		return err
	}
	return nil
}

// movedLoad returns a request in which everything happens d later.
func movedLoad(request *loadsoothingv1.AdmitRequest, d time.Duration) *loadsoothingv1.AdmitRequest {
	request = proto.CloneOf(request)
	request.Now = queue.Later(request.GetNow(), d)
	if load := request.GetLoad(); load != nil {
		load.Created = queue.Later(load.GetCreated(), d)
	}
	return request
}
