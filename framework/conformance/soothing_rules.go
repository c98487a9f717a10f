package conformance

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
)

func soothingRules() []Rule {
	kinds := []string{"LoadSoothing"}
	judged := func(by func(*loadsoothingv1.AdmitResponse) error) func(context.Context, *subject) error {
		return func(ctx context.Context, s *subject) error { return s.judgedLoads(ctx, by) }
	}
	return []Rule{
		{
			ID: "soothing-decides", Kinds: kinds, Severity: Must, check: judged(nil),
			Text: "A load is decided on, whatever is on its way: nothing, as many as the limit or more, 1,000 nodes; with a limit and without, with a node and without.",
		},
		{
			ID: "soothing-reason", Kinds: kinds, Severity: Must, check: judged(judgeReason),
			Text: "A load that may not be accepted has a reason: one line of at most 1024 bytes.",
		},
		{
			ID: "soothing-retry", Kinds: kinds, Severity: Must, check: judged(judgeRetry),
			Text: "retry_after of a load that may not be accepted is absent, or from zero to an hour.",
		},
		{
			ID: "soothing-empty", Kinds: kinds, Severity: Must, check: checkSoothingEmpty,
			Text: "A request without a load, which no node agent sends, is answered. It does not end the process.",
		},
	}
}

// loads are requests of all sorts, the usual one first.
func (s *subject) loads(config []byte) []*loadsoothingv1.AdmitRequest {
	request := func(limit, nodes, each, ahead int, node string) *loadsoothingv1.AdmitRequest {
		request := &loadsoothingv1.AdmitRequest{
			Plugin: s.name, Config: config, Now: moment(0), Limit: int32(limit),
			Load: &loadsoothingv1.Load{Kind: "DataUpload", Name: "load", Node: node, Created: moment(time.Minute), Ahead: int32(ahead)},
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
	}
}

func soothingPolicy() policy {
	return policy{
		asked: func(s *subject, config []byte) []proto.Message {
			var all []proto.Message
			for _, request := range s.loads(config) {
				all = append(all, request)
			}
			return all
		},
		newer: func(s *subject, config []byte) proto.Message {
			request := withUnknown(s.loads(config)[0])
			request.Load.Kind = "InventedLater"
			withUnknown(request.GetLoad())
			return request
		},
		decide: func(ctx context.Context, s *subject, request proto.Message) (proto.Message, error) {
			asked, ok := request.(*loadsoothingv1.AdmitRequest)
			if !ok {
				return nil, fmt.Errorf("%T is no load", request)
			}
			return s.admit(ctx, asked)
		},
	}
}

func (s *subject) admit(ctx context.Context, request *loadsoothingv1.AdmitRequest) (*loadsoothingv1.AdmitResponse, error) {
	conn, err := s.conn(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	return loadsoothingv1.NewLoadSoothingServiceClient(conn).Admit(ctx, request)
}

// judgedLoads has the decisions on all loads judged; without a judge there has to be one on each.
func (s *subject) judgedLoads(ctx context.Context, by func(*loadsoothingv1.AdmitResponse) error) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	for _, request := range s.loads(config) {
		decided, err := s.admit(ctx, request)
		switch {
		case err == nil && by != nil:
			err = by(decided)
		case !hung(err) && by != nil:
			err = nil // which is another rule
		}
		if err != nil {
			return fmt.Errorf("with the limit %d, %d counts and %d loads ahead: %w",
				request.GetLimit(), len(request.GetCounts()), request.GetLoad().GetAhead(), err)
		}
	}
	return nil
}

func judgeReason(decided *loadsoothingv1.AdmitResponse) error {
	if decided.GetAdmitted() {
		return nil
	}
	return checkLine("reason", decided.GetReason())
}

func judgeRetry(decided *loadsoothingv1.AdmitResponse) error {
	after := decided.GetRetryAfter()
	if decided.GetAdmitted() || after == nil {
		return nil
	}
	if err := after.CheckValid(); err != nil {
		return err
	}
	if again := after.AsDuration(); again < 0 || again > time.Hour {
		return fmt.Errorf("it is %s", again)
	}
	return nil
}

func checkSoothingEmpty(ctx context.Context, s *subject) error {
	config, err := s.ready(ctx)
	if err != nil {
		return err
	}
	if _, err = s.admit(ctx, &loadsoothingv1.AdmitRequest{Plugin: s.name, Config: config}); hung(err) || panicked(err) {
		return err
	}
	return nil
}
