package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
)

type (
	queue    func(*queueadmissionv1.DecideRequest) (*queueadmissionv1.DecideResponse, error)
	soothing func(*loadsoothingv1.AdmitRequest) (*loadsoothingv1.AdmitResponse, error)
	manifest func(manifestStream) error
)

type manifestStream = grpc.BidiStreamingServer[manifestwriterv1.WriteRequest, manifestwriterv1.WriteResponse]

func checkConfig(config []byte) error {
	if len(config) == 0 {
		return nil
	}
	_, err := object(config)
	return err
}

// firstCome admits backups in their order, up to the limit.
func firstCome(req *queueadmissionv1.DecideRequest) (*queueadmissionv1.DecideResponse, error) {
	if err := checkConfig(req.GetConfig()); err != nil {
		return nil, err
	}
	free := int(req.GetLimit()) - len(req.GetRunning()) - len(req.GetReady())
	decided := &queueadmissionv1.DecideResponse{}
	for _, backup := range req.GetQueued() {
		if len(decided.GetAdmit()) < free {
			decided.Admit = append(decided.Admit, backup.GetName())
			continue
		}
		decided.Waits = append(decided.Waits, &queueadmissionv1.Wait{Name: backup.GetName(), Reason: "Limit",
			Message: "no slot is free"})
	}
	return decided, nil
}

// closed admits only backups that have the label open.
func closed(req *queueadmissionv1.DecideRequest) (*queueadmissionv1.DecideResponse, error) {
	decided := &queueadmissionv1.DecideResponse{}
	for _, backup := range req.GetQueued() {
		if backup.GetLabels()["open"] != "" {
			decided.Admit = append(decided.Admit, backup.GetName())
			continue
		}
		decided.Waits = append(decided.Waits, &queueadmissionv1.Wait{Name: backup.GetName(), Reason: "Closed",
			Message: "it is closed"})
	}
	return decided, checkConfig(req.GetConfig())
}

// limit admits loads up to the limit.
func limit(req *loadsoothingv1.AdmitRequest) (*loadsoothingv1.AdmitResponse, error) {
	if err := checkConfig(req.GetConfig()); err != nil {
		return nil, err
	}
	preparing := int32(0)
	for _, count := range req.GetCounts() {
		preparing += count.GetAccepted() + count.GetPrepared()
	}
	if req.GetLimit() > 0 && preparing >= req.GetLimit() {
		return &loadsoothingv1.AdmitResponse{Reason: fmt.Sprintf("%d loads are being prepared", preparing)}, nil
	}
	return &loadsoothingv1.AdmitResponse{Admitted: true}, nil
}

// inventory writes an artifact with a line for each item.
func inventory(stream manifestStream) error {
	return describe(stream, func(*manifestwriterv1.Item) error { return nil }, func(lines []byte) error {
		if err := stream.Send(artifact("inventory.txt")); err != nil {
			return err
		}
		return stream.Send(content(lines))
	})
}

// describe reads all items of a call and then passes their lines to tell.
func describe(stream manifestStream, see func(*manifestwriterv1.Item) error, tell func(lines []byte) error) error {
	first, err := stream.Recv()
	if err != nil {
		if err == io.EOF {
			err = errors.New("there is no message")
		}
		return err
	}
	begin := first.GetBegin()
	if begin == nil {
		return errors.New("it does not begin with begin")
	}
	if begin.GetPlugin() != pluginName {
		return fmt.Errorf("no plugin %q here", begin.GetPlugin())
	}
	if err := checkConfig(begin.GetConfig()); err != nil {
		return err
	}
	if _, err := object(begin.GetBackup()); err != nil {
		return err
	}
	var lines []byte
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			return tell(lines)
		}
		if err != nil {
			return err
		}
		if len(message.GetItems().GetItems()) == 0 {
			return errors.New("a message without an item")
		}
		for _, item := range message.GetItems().GetItems() {
			if err := see(item); err != nil {
				return err
			}
			lines = fmt.Appendf(lines, "%q\n", item.GetName())
		}
	}
}

func artifact(name string) *manifestwriterv1.WriteResponse {
	return &manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Artifact{
		Artifact: &manifestwriterv1.Artifact{Name: name},
	}}
}

func content(piece []byte) *manifestwriterv1.WriteResponse {
	return &manifestwriterv1.WriteResponse{Part: &manifestwriterv1.WriteResponse_Content{Content: piece}}
}

type queueServer struct {
	queueadmissionv1.UnimplementedQueueAdmissionServiceServer
	p *program
}

func (s queueServer) Decide(
	_ context.Context, req *queueadmissionv1.DecideRequest,
) (*queueadmissionv1.DecideResponse, error) {
	return s.p.queue(req)
}

type soothingServer struct {
	loadsoothingv1.UnimplementedLoadSoothingServiceServer
	p *program
}

func (s soothingServer) Admit(
	_ context.Context, req *loadsoothingv1.AdmitRequest,
) (*loadsoothingv1.AdmitResponse, error) {
	return s.p.soothing(req)
}

type manifestServer struct {
	manifestwriterv1.UnimplementedManifestWriterServiceServer
	p *program
}

func (s manifestServer) Write(stream manifestStream) error { return s.p.manifest(stream) }
