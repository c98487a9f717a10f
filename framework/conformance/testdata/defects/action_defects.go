package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// actionDefects returns defects of actions of any kind.
func actionDefects() map[string]defect {
	onReply := func(change func(request, *reply)) defect {
		return defect{plant: func(p *program) {
			good := p.action.execute
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				got, err := good(ctx, req)
				if err == nil {
					change(req, got)
				}
				return got, err
			}
		}}
	}
	onItem := func(change func(item map[string]any)) defect {
		return onReply(func(_ request, got *reply) {
			item, err := object(got.item)
			if err != nil {
				panic(err)
			}
			change(item)
			got.item = encode(item)
		})
	}
	onRequest := func(refuse func(ctx context.Context, req request) error) defect {
		return defect{plant: func(p *program) {
			good := p.action.execute
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				if err := refuse(ctx, req); err != nil {
					return nil, err
				}
				return good(ctx, req)
			}
		}}
	}
	of := func(kind string, d defect) defect { d.kind = kind; return d }
	var calls atomic.Int64
	return map[string]defect{
		"action-applies-to/error": {plant: func(p *program) {
			p.action.appliesTo = func(context.Context) (*shared.ResourceSelector, error) { return nil, errors.New("not now") }
		}},
		"action-applies-to/changes": {plant: func(p *program) {
			p.action.appliesTo = func(context.Context) (*shared.ResourceSelector, error) {
				return &shared.ResourceSelector{ExcludedResources: []string{fmt.Sprintf("r%d", calls.Add(1))}}, nil
			}
		}},
		"action-selector": {plant: func(p *program) {
			p.action.appliesTo = func(context.Context) (*shared.ResourceSelector, error) {
				return &shared.ResourceSelector{Selector: "app=(db"}, nil
			}
		}},
		"action-item/crash": onRequest(func(context.Context, request) error {
			go func() { panic("out of ideas") }()
			select {}
		}),
		"action-item/panicked": onRequest(func(context.Context, request) error {
			return status.Error(codes.Aborted, "plugin panicked: nil")
		}),
		"action-item/hang":   onRequest(func(context.Context, request) error { select {} }).waiting(),
		"action-item/silent": onRequest(func(context.Context, request) error { return status.Error(codes.Unknown, " ") }),
		"action-item/exit": of("ItemBlockAction",
			onRequest(func(context.Context, request) error { os.Exit(7); return nil })),

		"action-reply-item/other": onItem(
			func(item map[string]any) { item["metadata"].(map[string]any)["name"] = "somebody" },
		),
		"action-reply-item/no kind": of("RestoreItemActionV2", onItem(func(item map[string]any) { delete(item, "kind") })),
		"action-reply-item/none":    onReply(func(_ request, got *reply) { got.item = nil }),
		"action-reply-item/garbage": onReply(func(_ request, got *reply) { got.item = []byte("done") }),

		"action-reply-identifiers/no name": onReply(func(_ request, got *reply) {
			got.additional = []*shared.ResourceIdentifier{{Resource: "pods"}}
		}),
		"action-reply-identifiers/path": of("ItemBlockAction", onReply(func(_ request, got *reply) {
			got.additional = []*shared.ResourceIdentifier{{Resource: "pods", Namespace: "..", Name: "a"}}
		})),
		"action-resource-names/kind": onReply(func(_ request, got *reply) {
			got.additional = []*shared.ResourceIdentifier{{Resource: "Pod", Namespace: "a", Name: "a"}}
		}),
		"action-resource-names/singular": of("ItemBlockAction", onReply(func(_ request, got *reply) {
			got.additional = []*shared.ResourceIdentifier{{Resource: "persistentvolumeclaim", Namespace: "a", Name: "a"}}
		})),
		"action-own-answer/labels":    mixes("BackupItemAction", "labels"),
		"action-own-answer/namespace": mixes("RestoreItemActionV2", "namespace"),
		"action-runs-apart": {plant: func(p *program) {
			good := p.action.execute
			var other atomic.Bool // the process has served the other run
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				got, err := good(ctx, req)
				switch item, wrong := object(req.item); {
				case bytes.Contains(req.owner, []byte(`"other-run"`)):
					other.Store(true)
				case err == nil && wrong == nil && other.Load():
					item["plane"] = "that of the other run"
					got.item = encode(item)
				}
				return got, err
			}
		}},
		"action-same-answer": onItem(func(item map[string]any) { item["count"] = calls.Add(1) }),
		"action-owner-bare": onRequest(func(_ context.Context, req request) error {
			if owner, err := object(req.owner); err == nil && owner["kind"] == nil {
				return errors.New("what is this?")
			}
			return nil
		}),
		"action-json-unknown": onRequest(func(_ context.Context, req request) error {
			if bytes.Contains(req.owner, []byte("conformanceUnknown")) {
				return errors.New("unknown field")
			}
			return nil
		}),
		"action-json-kept/dropped": onItem(func(item map[string]any) { delete(item, "conformanceUnknown") }),
		"action-json-kept/in the spec": onItem(func(item map[string]any) {
			if spec, ok := item["spec"].(map[string]any); ok {
				delete(spec, "conformanceUnknown")
			}
		}),
		"action-json-kept/rounded": onReply(func(_ request, got *reply) {
			var item map[string]any // its numbers are float64
			if json.Unmarshal(got.item, &item) == nil {
				got.item = encode(item)
			}
		}),
		"action-wire-unknown": onRequest(func(_ context.Context, req request) error {
			if req.unknown {
				return errors.New("unknown field")
			}
			return nil
		}),
		"action-request-empty/owner": onRequest(func(_ context.Context, req request) error {
			if len(req.owner) == 0 && len(req.item) > 0 {
				os.Exit(1)
			}
			return nil
		}),
		"action-request-empty/item": onRequest(func(_ context.Context, req request) error {
			if string(req.item) == "{}" {
				os.Exit(1)
			}
			return nil
		}),
		"action-request-garbage/crash": onRequest(func(_ context.Context, req request) error {
			if string(req.item) == "null" {
				os.Exit(1)
			}
			return nil
		}),
		"action-request-garbage/made up": {plant: func(p *program) {
			good := p.action.execute
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				if len(req.item) > 0 && !json.Valid(req.item) {
					return &reply{item: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"made-up"}}`)}, nil
				}
				return good(ctx, req)
			}
		}},
		"action-large-item": onRequest(func(_ context.Context, req request) error {
			if len(req.item) > 1<<20 && len(req.item) < 4<<20 {
				return errors.New("too large")
			}
			return nil
		}),
		"action-large-request": {plant: func(p *program) { p.options = append(p.options, grpc.MaxRecvMsgSize(4<<20)) }},
		"action-concurrent/mixed": {plant: func(p *program) {
			good, others := p.action.execute, newCrowd(2) // the first call is made alone
			var current atomic.Pointer[request]
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				if !ofCaller(req) {
					return good(ctx, req) // other rules call it at the same time, too, if calls are slow
				}
				current.Store(&req)
				others.join(ctx)
				return good(ctx, *current.Load())
			}
		}},
		"action-concurrent/busy": {kind: "DeleteItemAction", plant: func(p *program) {
			good, others := p.action.execute, newCrowd(2)
			var mu sync.Mutex
			var served context.Context // the call that is served, unless it was cancelled
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				mu.Lock()
				busy := served != nil && served.Err() == nil
				if !busy {
					served = ctx
				}
				mu.Unlock()
				if ofCaller(req) {
					others.join(ctx)
				}
				if busy {
					return nil, errors.New("busy")
				}
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					if served == ctx {
						served = nil
					}
				}()
				return good(ctx, req)
			}
		}},
		"action-cancelled": {waits: true, plant: func(p *program) {
			var alone sync.Mutex
			good := p.action.execute
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				alone.Lock()
				if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 5*time.Second { // the work takes longer
					<-ctx.Done()
					return nil, ctx.Err() // without unlocking
				}
				defer alone.Unlock()
				return good(ctx, req)
			}
		}},
	}
}

// mixes is the defect of an action that gives every 64th item a field of the metadata of another item.
func mixes(kind, field string) defect {
	var mu sync.Mutex
	var calls int
	var last any
	return defect{kind: kind, plant: func(p *program) {
		good := p.action.execute
		p.action.execute = func(ctx context.Context, req request) (*reply, error) {
			got, err := good(ctx, req)
			if err != nil {
				return nil, err
			}
			item, err := object(got.item)
			if err != nil {
				return nil, err
			}
			metadata, _ := item["metadata"].(map[string]any)
			if metadata[field] == nil {
				return got, nil
			}
			mu.Lock()
			defer mu.Unlock()
			own := metadata[field]
			if calls++; calls%64 == 0 {
				metadata[field] = last
				got.item = encode(item)
			}
			last = own
			return got, nil
		}
	}}
}

// ofCaller reports whether a request is one of those of action-concurrent. The many requests of action-own-answer have
// another mark.
func ofCaller(req request) bool {
	return bytes.Contains(req.item, []byte(`"conformance.invalid/caller":"caller`))
}

// lasting3 is the defect of an action whose operations end three seconds after their start, whatever Cancel says, and
// have a progress until then.
func lasting3(during func(since time.Duration) *shared.OperationProgress) defect {
	return defect{kind: "BackupItemActionV2", plant: func(p *program) {
		var began sync.Map // by operation
		goodExecute, goodProgress := p.action.execute, p.action.progress
		p.action.execute = func(ctx context.Context, req request) (*reply, error) {
			got, err := goodExecute(ctx, req)
			if err == nil {
				began.LoadOrStore(got.operation, time.Now())
			}
			return got, err
		}
		p.action.cancel = func(string) error { return nil }
		p.action.progress = func(operation string) (*shared.OperationProgress, error) {
			if at, ok := began.Load(operation); ok && time.Since(at.(time.Time)) < 3*time.Second {
				return during(time.Since(at.(time.Time))), nil
			}
			if _, err := goodProgress(operation); err != nil {
				return nil, err
			}
			return &shared.OperationProgress{NCompleted: 3000, NTotal: 3000, Completed: true}, nil
		}
	}}
}

// operationDefects returns defects of actions that start operations.
func operationDefects() map[string]defect {
	const async = "AsyncBackupItemAction"
	onReply := func(kind string, change func(request, *reply)) defect {
		return defect{kind: kind, plant: func(p *program) {
			good := p.action.execute
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				got, err := good(ctx, req)
				if err == nil {
					change(req, got)
				}
				return got, err
			}
		}}
	}
	progresses := func(progress func(operation string) (*shared.OperationProgress, error)) defect {
		return defect{kind: "BackupItemActionV2", plant: func(p *program) {
			good := p.action.progress
			var cancelled sync.Map
			p.action.cancel = func(operation string) error {
				cancelled.Store(operation, true)
				return nil
			}
			p.action.progress = func(operation string) (*shared.OperationProgress, error) {
				if _, err := good(operation); err != nil {
					return nil, err
				}
				if _, ok := cancelled.Load(operation); ok {
					return &shared.OperationProgress{Completed: true, Err: "cancelled"}, nil
				}
				return progress(operation)
			}
		}}
	}
	constant := func(progress *shared.OperationProgress) defect {
		return progresses(func(string) (*shared.OperationProgress, error) { return progress, nil })
	}
	var calls, cancels atomic.Int64
	return map[string]defect{
		"operation-id/lines": onReply("RestoreItemActionV2", func(_ request, got *reply) { got.operation += "\n" }),
		"operation-id/long": onReply("BackupItemActionV2",
			func(_ request, got *reply) { got.operation += strings.Repeat("x", 1024) }),
		"operation-id/blank": {kind: async, along: []string{"start-other", "operation-own"}, plant: func(p *program) {
			onReply(async, func(_ request, got *reply) { got.operation = "  " }).plant(p)
			p.action.progress = func(operation string) (*shared.OperationProgress, error) {
				if operation != "  " {
					return nil, errors.New("no such operation")
				}
				return &shared.OperationProgress{Completed: true}, nil
			}
		}},
		"operation-items": onReply("BackupItemActionV2", func(_ request, got *reply) {
			got.operation, got.after = "", []*shared.ResourceIdentifier{{Resource: "pods", Name: "a"}}
		}),
		"operation-progress/absent":   constant(nil),
		"operation-progress/negative": constant(&shared.OperationProgress{NCompleted: -1}),
		"operation-progress/no time":  constant(&shared.OperationProgress{Started: stamp(math.MaxInt64)}),
		"operation-progress/error": {kind: "RestoreItemActionV2", along: []string{"operation-cancel", "operation-restart"},
			plant: func(p *program) {
				p.action.progress = func(string) (*shared.OperationProgress, error) { return nil, errors.New("who knows") }
			}},
		"operation-progress-sane/more":    constant(&shared.OperationProgress{NCompleted: 9, NTotal: 7}),
		"operation-progress-sane/error":   constant(&shared.OperationProgress{Err: "disk full"}),
		"operation-progress-sane/updated": constant(&shared.OperationProgress{Started: stamp(2000), Updated: stamp(1000)}),
		"operation-completed-stays": progresses(func(string) (*shared.OperationProgress, error) {
			return &shared.OperationProgress{Completed: calls.Add(1)%2 == 1}, nil
		}),
		"operation-cancel/twice": {kind: "RestoreItemActionV2", plant: func(p *program) {
			p.action.cancel = func(string) error {
				if cancels.Add(1) > 1 {
					return errors.New("it is cancelled already")
				}
				return nil
			}
		}},
		"operation-cancel-ends": defect{kind: "RestoreItemActionV2", plant: func(p *program) {
			p.action.progress = func(operation string) (*shared.OperationProgress, error) {
				if !strings.HasPrefix(operation, "op-") {
					return nil, fmt.Errorf("no operation %q", operation)
				}
				return &shared.OperationProgress{NCompleted: 1, NTotal: 2}, nil
			}
		}}.waiting(),
		"operation-cancel-ends/lies": lasting3(func(time.Duration) *shared.OperationProgress {
			return &shared.OperationProgress{NTotal: 2}
		}),
		"operation-progress-sane/early": lasting3(func(since time.Duration) *shared.OperationProgress {
			return &shared.OperationProgress{NTotal: 2, Err: "the disk is full"}
		}).also("operation-cancel-ends"),
		"operation-progress-forward/early": lasting3(func(since time.Duration) *shared.OperationProgress {
			return &shared.OperationProgress{NTotal: 3000, NCompleted: 3000 - since.Milliseconds()}
		}).also("operation-cancel-ends"),
		"operation-own/id": onReply("BackupItemActionV2", func(_ request, got *reply) {
			got.operation = "op-" + got.operation[strings.LastIndex(got.operation, "-")+1:]
		}),
		"operation-own/cancel": {kind: "BackupItemActionV2", plant: func(p *program) {
			var cancelled sync.Map // by item
			itemOf := func(operation string) string { return operation[strings.LastIndex(operation, "-")+1:] }
			onReply("", func(_ request, got *reply) { cancelled.Delete(itemOf(got.operation)) }).plant(p)
			p.action.cancel = func(operation string) error {
				cancelled.Store(itemOf(operation), true)
				return nil
			}
			good := p.action.progress
			p.action.progress = func(operation string) (*shared.OperationProgress, error) {
				if _, err := good(operation); err != nil {
					return nil, err
				}
				if _, ok := cancelled.Load(itemOf(operation)); ok {
					return &shared.OperationProgress{Completed: true, Err: "cancelled"}, nil
				}
				return &shared.OperationProgress{NCompleted: 1, NTotal: 2}, nil
			}
		}},
		"operation-progress-forward": progresses(func(string) (*shared.OperationProgress, error) {
			return &shared.OperationProgress{NCompleted: 1000 - calls.Add(1), NTotal: 1000}, nil
		}),
		"operation-unknown": {kind: async, plant: func(p *program) {
			p.action.progress = func(string) (*shared.OperationProgress, error) {
				return &shared.OperationProgress{Completed: true}, nil
			}
		}},
		"operation-unknown-harmless": {kind: "RestoreItemActionV2", plant: func(p *program) {
			p.action.cancel = func(operation string) error {
				if operation == "" {
					os.Exit(1)
				}
				return nil
			}
		}},
		"operation-restart": {kind: "BackupItemActionV2", plant: func(p *program) {
			var started sync.Map
			onReply("", func(_ request, got *reply) { started.Store(got.operation, true) }).plant(p)
			p.action.progress = func(operation string) (*shared.OperationProgress, error) {
				if _, ok := started.Load(operation); !ok {
					return nil, errors.New("no such operation")
				}
				return &shared.OperationProgress{Completed: true}, nil
			}
		}},
		"start-again": onReply(async, func(_ request, got *reply) { got.operation = fmt.Sprintf("op-%d", calls.Add(1)) }),
		"start-again-restart": {kind: async, plant: func(p *program) {
			onReply("", func(req request, got *reply) { got.operation = fmt.Sprintf("op-%d-%s", os.Getpid(), req.key) }).plant(p)
		}},
		"start-other": onReply(async, func(_ request, got *reply) { got.operation = "op-the-one" }).also("operation-own"),
		"delete-again": {kind: "DeleteItemAction", plant: func(p *program) {
			good := p.action.execute
			p.action.execute = func(ctx context.Context, req request) (*reply, error) {
				if bytes.Contains(req.item, []byte(`"PersistentVolume"`)) && calls.Add(1) > 1 {
					return nil, errors.New("it is gone")
				}
				return good(ctx, req)
			}
		}},
		"ready-timeout": onReply("RestoreItemActionV2", func(_ request, got *reply) { got.timeout = lasting(-1) }),
		"ready-answers": {kind: "RestoreItemActionV2", plant: func(p *program) {
			p.action.ready = func([]*shared.ResourceIdentifier) error { os.Exit(1); return nil }
		}},
	}
}
