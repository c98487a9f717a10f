package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

type (
	decideRequest  = *queueadmissionv1.DecideRequest
	decideResponse = *queueadmissionv1.DecideResponse
	admitRequest   = *loadsoothingv1.AdmitRequest
	admitResponse  = *loadsoothingv1.AdmitResponse
)

// onQueue is a defect of a QueueAdmission that calls before with the request and after with the decision.
func onQueue(before func(decideRequest) error, after func(decideRequest, decideResponse)) defect {
	return defect{kind: "QueueAdmission", plant: func(p *program) {
		p.queue = func(req decideRequest) (decideResponse, error) {
			if before != nil {
				if err := before(req); err != nil {
					return nil, err
				}
			}
			decided, err := firstCome(req)
			if err == nil && after != nil {
				after(req, decided)
			}
			return decided, err
		}
	}}
}

// onSoothing is a defect of a LoadSoothing that calls before with the request and after with the answer.
func onSoothing(before func(admitRequest) error, after func(admitResponse)) defect {
	return defect{kind: "LoadSoothing", plant: func(p *program) {
		p.soothing = func(req admitRequest) (admitResponse, error) {
			if before != nil {
				if err := before(req); err != nil {
					return nil, err
				}
			}
			decided, err := limit(req)
			if err == nil && after != nil {
				after(decided)
			}
			return decided, err
		}
	}}
}

// policyDefects returns defects of policies of any kind.
func policyDefects() map[string]defect {
	var calls atomic.Int64
	var current atomic.Pointer[queueadmissionv1.DecideRequest]
	return map[string]defect{
		"policy-config/schema": {kind: "QueueAdmission", plant: func(p *program) {
			p.schema = `{"type":"object","properties":{"mode":{"enum":["fast"]}}}`
		}},
		"policy-config/refused": onSoothing(func(req admitRequest) error {
			if config, err := object(req.GetConfig()); err == nil && config["mode"] != nil {
				return errors.New("unknown key mode")
			}
			return nil
		}, nil).also("soothing-decides"),
		"policy-config-empty/refused": onQueue(func(req decideRequest) error {
			if len(req.GetConfig()) == 0 {
				return errors.New("no config")
			}
			return nil
		}, nil),
		"policy-config-empty/taken": {kind: "LoadSoothing", plant: func(p *program) {
			p.schema = `{"type":"object","required":["mode"]}`
		}},
		"policy-config-garbage": onQueue(func(req decideRequest) error {
			if len(req.GetConfig()) > 0 && !json.Valid(req.GetConfig()) {
				os.Exit(1)
			}
			return nil
		}, nil),
		"policy-wire-unknown/field": onSoothing(func(req admitRequest) error {
			if odd(req) {
				return errors.New("unknown field")
			}
			return nil
		}, nil),
		"policy-wire-unknown/value": onQueue(func(req decideRequest) error {
			for _, backup := range req.GetQueued() {
				if backup.GetClusterScope() > 3 {
					return errors.New("unknown cluster scope")
				}
			}
			return nil
		}, nil),
		"policy-pure/process": onQueue(nil, func(_ decideRequest, decided decideResponse) {
			for _, wait := range decided.GetWaits() {
				wait.Message += fmt.Sprintf(", says %d", os.Getpid())
			}
		}).also("policy-concurrent", "policy-clock"),
		"policy-pure/count": onSoothing(nil, func(decided admitResponse) {
			if decided.GetReason() != "" {
				decided.Reason = fmt.Sprintf("asked %d times", calls.Add(1))
			}
		}).also("policy-concurrent", "policy-clock"),
		"policy-clock/queue": onQueueInstead(func(req decideRequest) (decideResponse, error) {
			if queued := req.GetQueued(); len(queued) > 0 && time.Since(queued[0].GetCreated().AsTime()) < time.Minute {
				req.Limit = 0
			}
			return firstCome(req)
		}),
		"policy-clock/zone": onQueueInstead(func(req decideRequest) (decideResponse, error) {
			if req.GetNow().AsTime().Local().Hour() < 12 {
				req.Limit = 0
			}
			return firstCome(req)
		}),
		"policy-clock/load": onSoothing(func(req admitRequest) error {
			if time.Since(req.GetLoad().GetCreated().AsTime()) < time.Minute {
				req.Limit = 1
			}
			return nil
		}, nil),
		"policy-concurrent": onQueueInstead(func(req decideRequest) (decideResponse, error) {
			current.Store(req)
			time.Sleep(20 * time.Millisecond) // so that other calls overlap
			return firstCome(current.Load())
		}),
	}
}

func onQueueInstead(decide queue) defect {
	return defect{kind: "QueueAdmission", plant: func(p *program) { p.queue = decide }}
}

func queueDefects() map[string]defect {
	eachWait := func(change func(req decideRequest, wait *queueadmissionv1.Wait)) defect {
		return onQueue(nil, func(req decideRequest, decided decideResponse) {
			for _, wait := range decided.GetWaits() {
				change(req, wait)
			}
		})
	}
	return map[string]defect{
		"queue-decides": onQueue(func(req decideRequest) error {
			if len(req.GetRunning()) > int(req.GetLimit()) {
				return errors.New("that cannot be")
			}
			return nil
		}, nil),
		"queue-limit": onQueue(nil, func(_ decideRequest, decided decideResponse) {
			if waits := decided.GetWaits(); len(decided.GetAdmit()) == 0 && len(waits) > 0 {
				decided.Admit, decided.Waits = []string{waits[0].GetName()}, waits[1:]
			}
		}),
		"queue-complete/ghost": onQueue(nil, func(_ decideRequest, decided decideResponse) {
			for _, wait := range decided.GetWaits() {
				decided.Order = append(decided.Order, wait.GetName())
			}
			if len(decided.GetOrder()) > 0 {
				decided.Order = append(decided.Order, "ghost")
			}
		}),
		"queue-complete/hole": onQueue(nil, func(_ decideRequest, decided decideResponse) {
			for _, wait := range decided.GetWaits()[:max(0, len(decided.GetWaits())-1)] {
				decided.Order = append(decided.Order, wait.GetName())
			}
		}),
		"queue-waits/missing": onQueue(nil, func(_ decideRequest, decided decideResponse) { decided.Waits = nil }),
		"queue-waits/word":    eachWait(func(_ decideRequest, wait *queueadmissionv1.Wait) { wait.Reason = "no room" }),
		"queue-waits/message": eachWait(func(_ decideRequest, wait *queueadmissionv1.Wait) { wait.Message = "" }),
		"queue-blockers/self": eachWait(func(_ decideRequest, wait *queueadmissionv1.Wait) {
			wait.Blockers = []string{wait.GetName()}
		}),
		"queue-blockers/namespace": eachWait(func(_ decideRequest, wait *queueadmissionv1.Wait) {
			wait.Namespaces = []string{"elsewhere"}
		}),
		"queue-recheck": onQueue(nil, func(_ decideRequest, decided decideResponse) {
			decided.RecheckAfter = lasting(0)
			decided.RecheckAfter.Nanos = 1000
		}),
		"queue-many": onQueue(func(req decideRequest) error {
			if len(req.GetQueued()) > 500 {
				return errors.New("too many")
			}
			return nil
		}, nil),
		"queue-empty": onQueue(func(req decideRequest) error {
			if len(req.GetQueued()) == 0 && len(req.GetRunning()) > 0 {
				os.Exit(1)
			}
			return nil
		}, nil),
	}
}

func soothingDefects() map[string]defect {
	return map[string]defect{
		"soothing-decides": onSoothing(func(req admitRequest) error {
			if req.GetLimit() == 0 && len(req.GetCounts()) > 0 {
				return errors.New("there is no limit")
			}
			return nil
		}, nil),
		"soothing-reason": onSoothing(nil, func(decided admitResponse) { decided.Reason = "" }),
		"soothing-retry": onSoothing(nil, func(decided admitResponse) {
			if !decided.GetAdmitted() {
				decided.RetryAfter = lasting(7200)
			}
		}),
		"soothing-empty": onSoothing(func(req admitRequest) error {
			if req.GetLoad() == nil && len(req.GetConfig()) > 0 {
				os.Exit(1)
			}
			return nil
		}, nil),
	}
}

// firstItems is a stream of which only the first item of each message is read.
type firstItems struct {
	manifestStream
}

// Recv implements manifestStream.
func (s *firstItems) Recv() (*manifestwriterv1.WriteRequest, error) {
	message, err := s.manifestStream.Recv()
	if items := message.GetItems(); items != nil {
		items.Items = items.Items[:min(1, len(items.Items))]
	}
	return message, err
}

func manifestDefects() map[string]defect {
	plant := func(write manifest) defect {
		return defect{kind: "ManifestWriter", plant: func(p *program) { p.manifest = write }}
	}
	seeing := func(see func(*manifestwriterv1.Item) error, tell func(stream manifestStream, lines []byte) error) defect {
		return plant(func(stream manifestStream) error {
			return describe(stream, see, func(lines []byte) error { return tell(stream, lines) })
		})
	}
	fine := func(*manifestwriterv1.Item) error { return nil }
	sends := func(messages ...*manifestwriterv1.WriteResponse) func(manifestStream, []byte) error {
		return func(stream manifestStream, _ []byte) error {
			for _, message := range messages {
				if err := stream.Send(message); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var mu sync.Mutex
	var everything []byte
	return map[string]defect{
		"manifest-empty": seeing(fine, func(stream manifestStream, lines []byte) error {
			if len(lines) == 0 {
				return errors.New("nothing to describe")
			}
			return sends(artifact("a"))(stream, lines)
		}),
		"manifest-items": seeing(func(item *manifestwriterv1.Item) error {
			if len(item.GetOwners()) > 0 {
				return errors.New("where is the owner?")
			}
			return nil
		}, sends(artifact("a"))),
		"manifest-names/capital": seeing(fine, sends(artifact("Items.txt"))),
		"manifest-names/twice":   seeing(fine, sends(artifact("a"), artifact("a"))),
		"manifest-content-first": seeing(fine, sends(content([]byte("x")), artifact("a"))),
		"manifest-reads-all": plant(func(stream manifestStream) error {
			seen := 0
			errEnough := errors.New("enough")
			err := describe(stream, func(*manifestwriterv1.Item) error {
				if seen++; seen == 20 {
					return errEnough
				}
				return nil
			}, func([]byte) error { return nil })
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}),
		"manifest-many": plant(func(stream manifestStream) error {
			seen := 0
			return describe(stream, func(*manifestwriterv1.Item) error {
				if seen++; seen > 5000 {
					return errors.New("too many")
				}
				return nil
			}, func([]byte) error { return nil })
		}),
		"manifest-messages": plant(func(stream manifestStream) error {
			return inventory(&firstItems{stream})
		}),
		"manifest-garbage/crash": plant(func(stream manifestStream) error {
			err := inventory(stream)
			if err != nil && err.Error() == "it does not begin with begin" {
				os.Exit(1)
			}
			return err
		}),
		"manifest-garbage/backup": plant(func(stream manifestStream) error {
			err := inventory(stream)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}),
		"manifest-garbage/well": plant(func(stream manifestStream) error {
			err := inventory(stream)
			if err != nil && err.Error() == "it does not begin with begin" {
				return nil
			}
			return err
		}),
		"manifest-cancelled": plant(func(stream manifestStream) error {
			err := inventory(stream)
			if stream.Context().Err() != nil {
				os.Exit(1)
			}
			return err
		}),
		"manifest-concurrent": seeing(func(item *manifestwriterv1.Item) error {
			mu.Lock()
			defer mu.Unlock()
			everything = fmt.Appendln(everything[max(0, len(everything)-1000):], item.GetName())
			return nil
		}, func(stream manifestStream, _ []byte) error {
			mu.Lock()
			told := slices.Clone(everything)
			mu.Unlock()
			return sends(artifact("a"), content(told))(stream, nil)
		}),
	}
}
