package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
	datamoverv1 "github.com/cleat-dev/cleat/proto/cleat/datamover/v1"
	loadsoothingv1 "github.com/cleat-dev/cleat/proto/cleat/loadsoothing/v1"
	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
	queueadmissionv1 "github.com/cleat-dev/cleat/proto/cleat/queueadmission/v1"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	volumesnapshotterv1 "github.com/cleat-dev/cleat/proto/velero/volumesnapshotter/v1"
)

// allKinds returns the kinds that are served by default.
func allKinds() []string {
	return []string{
		"BackupItemAction", "BackupItemActionV2", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction",
		"AsyncBackupItemAction",
		"ObjectStore", "VolumeSnapshotter", "QueueAdmission", "LoadSoothing", "ManifestWriter", "DataMover",
	}
}

func (p *program) register(server *grpc.Server, kind string) {
	switch kind {
	case "BackupItemAction":
		backupitemactionv1.RegisterBackupItemActionServer(server, bia1{p: p})
	case "BackupItemActionV2":
		backupitemactionv2.RegisterBackupItemActionServer(server, bia2{p: p})
	case "RestoreItemActionV2":
		restoreitemactionv2.RegisterRestoreItemActionServer(server, ria2{p: p})
	case "DeleteItemAction":
		deleteitemactionv1.RegisterDeleteItemActionServer(server, dia1{p: p})
	case "ItemBlockAction":
		itemblockactionv1.RegisterItemBlockActionServer(server, iba1{p: p})
	case "AsyncBackupItemAction":
		asyncbackupitemactionv1.RegisterAsyncBackupItemActionServiceServer(server, abia1{p: p})
	case "ObjectStore":
		objectstorev1.RegisterObjectStoreServer(server, storeServer{store: p.store})
		objectlockv1.RegisterObjectLockServiceServer(server, lockServer{store: p.store})
	case "VolumeSnapshotter":
		volumesnapshotterv1.RegisterVolumeSnapshotterServer(server, sanServer{san: p.san})
	case "QueueAdmission":
		queueadmissionv1.RegisterQueueAdmissionServiceServer(server, queueServer{p: p})
	case "LoadSoothing":
		loadsoothingv1.RegisterLoadSoothingServiceServer(server, soothingServer{p: p})
	case "ManifestWriter":
		manifestwriterv1.RegisterManifestWriterServiceServer(server, manifestServer{p: p})
	case "DataMover":
		datamoverv1.RegisterDataMoverServiceServer(server, moverServer{m: p.mover})
	}
}

// request is a request to an action of any kind.
type request struct {
	item, owner []byte
	key         string
	unknown     bool // it has unknown fields
}

// reply is the reply of an action of any kind.
type reply struct {
	item              []byte
	additional, after []*shared.ResourceIdentifier
	operation         string
	timeout           *durationpb.Duration
}

// action defines the behaviour of an action.
type action struct {
	appliesTo func(context.Context) (*shared.ResourceSelector, error)
	execute   func(context.Context, request) (*reply, error)
	progress  func(operation string) (*shared.OperationProgress, error)
	cancel    func(operation string) error
	ready     func(items []*shared.ResourceIdentifier) error
}

// goodAction returns an action that keeps all rules.
func goodAction() *action {
	return &action{
		appliesTo: func(context.Context) (*shared.ResourceSelector, error) { return &shared.ResourceSelector{}, nil },
		execute:   func(_ context.Context, req request) (*reply, error) { return mark(req) },
		progress: func(operation string) (*shared.OperationProgress, error) {
			if !strings.HasPrefix(operation, "op-") {
				return nil, fmt.Errorf("no operation %q", operation)
			}
			return &shared.OperationProgress{Completed: true, NCompleted: 1, NTotal: 1}, nil
		},
		cancel: func(string) error { return nil },
		ready:  func([]*shared.ResourceIdentifier) error { return nil },
	}
}

// mark writes the name of the Backup or Restore into the item.
func mark(req request) (*reply, error) {
	item, err := object(req.item)
	if err != nil {
		return nil, fmt.Errorf("item: %w", err)
	}
	owner, err := object(req.owner)
	if err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	metadata, ok := item["metadata"].(map[string]any)
	if !ok || item["kind"] == nil {
		return nil, errors.New("item: no kind or no metadata")
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	of, _ := owner["metadata"].(map[string]any)
	annotations["example.io/defect"] = fmt.Sprint(of["name"])
	metadata["annotations"] = annotations
	return &reply{item: encode(item), operation: operationFor(req, of, metadata)}, nil
}

// operationFor returns the ID of the operation on an item. Operations have no other state.
func operationFor(req request, owner, metadata map[string]any) string {
	if req.key != "" {
		return "op-" + req.key
	}
	return fmt.Sprintf("op-%v-%v", owner["name"], metadata["name"])
}

func object(raw []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var decoded map[string]any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, err
	}
	if decoded == nil {
		return nil, errors.New("it is null")
	}
	return decoded, nil
}

func encode(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return encoded
}

func odd(message proto.Message) bool { return len(message.ProtoReflect().GetUnknown()) > 0 }

type bia1 struct {
	backupitemactionv1.UnimplementedBackupItemActionServer
	p *program
}

func (s bia1) AppliesTo(
	ctx context.Context, _ *backupitemactionv1.BackupItemActionAppliesToRequest,
) (*backupitemactionv1.BackupItemActionAppliesToResponse, error) {
	selector, err := s.p.action.appliesTo(ctx)
	return &backupitemactionv1.BackupItemActionAppliesToResponse{ResourceSelector: selector}, err
}

func (s bia1) Execute(
	ctx context.Context, req *backupitemactionv1.ExecuteRequest,
) (*backupitemactionv1.ExecuteResponse, error) {
	got, err := s.p.action.execute(ctx, request{item: req.GetItem(), owner: req.GetBackup(), unknown: odd(req)})
	if err != nil {
		return nil, err
	}
	return &backupitemactionv1.ExecuteResponse{Item: got.item, AdditionalItems: got.additional}, nil
}

type bia2 struct {
	backupitemactionv2.UnimplementedBackupItemActionServer
	p *program
}

func (s bia2) AppliesTo(
	ctx context.Context, _ *backupitemactionv2.BackupItemActionAppliesToRequest,
) (*backupitemactionv2.BackupItemActionAppliesToResponse, error) {
	selector, err := s.p.action.appliesTo(ctx)
	return &backupitemactionv2.BackupItemActionAppliesToResponse{ResourceSelector: selector}, err
}

func (s bia2) Execute(
	ctx context.Context, req *backupitemactionv2.ExecuteRequest,
) (*backupitemactionv2.ExecuteResponse, error) {
	got, err := s.p.action.execute(ctx, request{item: req.GetItem(), owner: req.GetBackup(), unknown: odd(req)})
	if err != nil {
		return nil, err
	}
	return &backupitemactionv2.ExecuteResponse{
		Item: got.item, AdditionalItems: got.additional, PostOperationItems: got.after, OperationID: got.operation,
	}, nil
}

func (s bia2) Progress(
	_ context.Context, req *backupitemactionv2.BackupItemActionProgressRequest,
) (*backupitemactionv2.BackupItemActionProgressResponse, error) {
	progress, err := s.p.action.progress(req.GetOperationID())
	return &backupitemactionv2.BackupItemActionProgressResponse{Progress: progress}, err
}

func (s bia2) Cancel(_ context.Context, req *backupitemactionv2.BackupItemActionCancelRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.p.action.cancel(req.GetOperationID())
}

type abia1 struct {
	asyncbackupitemactionv1.UnimplementedAsyncBackupItemActionServiceServer
	p *program
}

func (s abia1) AppliesTo(
	ctx context.Context, _ *asyncbackupitemactionv1.AppliesToRequest,
) (*asyncbackupitemactionv1.AppliesToResponse, error) {
	selector, err := s.p.action.appliesTo(ctx)
	return &asyncbackupitemactionv1.AppliesToResponse{ResourceSelector: selector}, err
}

func (s abia1) Start(
	ctx context.Context, req *asyncbackupitemactionv1.StartRequest,
) (*asyncbackupitemactionv1.StartResponse, error) {
	got, err := s.p.action.execute(ctx, request{item: req.GetItem(), owner: req.GetBackup(), key: req.GetKey(),
		unknown: odd(req)})
	if err != nil {
		return nil, err
	}
	return &asyncbackupitemactionv1.StartResponse{
		Item: got.item, AdditionalItems: got.additional, PostOperationItems: got.after, OperationId: got.operation,
	}, nil
}

func (s abia1) Progress(
	_ context.Context, req *asyncbackupitemactionv1.ProgressRequest,
) (*asyncbackupitemactionv1.ProgressResponse, error) {
	progress, err := s.p.action.progress(req.GetOperationId())
	return &asyncbackupitemactionv1.ProgressResponse{Progress: progress}, err
}

func (s abia1) Cancel(
	_ context.Context, req *asyncbackupitemactionv1.CancelRequest,
) (*asyncbackupitemactionv1.CancelResponse, error) {
	return &asyncbackupitemactionv1.CancelResponse{Ack: true}, s.p.action.cancel(req.GetOperationId())
}

type ria2 struct {
	restoreitemactionv2.UnimplementedRestoreItemActionServer
	p *program
}

func (s ria2) AppliesTo(
	ctx context.Context, _ *restoreitemactionv2.RestoreItemActionAppliesToRequest,
) (*restoreitemactionv2.RestoreItemActionAppliesToResponse, error) {
	selector, err := s.p.action.appliesTo(ctx)
	return &restoreitemactionv2.RestoreItemActionAppliesToResponse{ResourceSelector: selector}, err
}

func (s ria2) Execute(
	ctx context.Context, req *restoreitemactionv2.RestoreItemActionExecuteRequest,
) (*restoreitemactionv2.RestoreItemActionExecuteResponse, error) {
	got, err := s.p.action.execute(ctx, request{item: req.GetItem(), owner: req.GetRestore(), unknown: odd(req)})
	if err != nil {
		return nil, err
	}
	return &restoreitemactionv2.RestoreItemActionExecuteResponse{
		Item: got.item, AdditionalItems: got.additional, OperationID: got.operation, AdditionalItemsReadyTimeout: got.timeout,
	}, nil
}

func (s ria2) Progress(
	_ context.Context, req *restoreitemactionv2.RestoreItemActionProgressRequest,
) (*restoreitemactionv2.RestoreItemActionProgressResponse, error) {
	progress, err := s.p.action.progress(req.GetOperationID())
	return &restoreitemactionv2.RestoreItemActionProgressResponse{Progress: progress}, err
}

func (s ria2) Cancel(
	_ context.Context, req *restoreitemactionv2.RestoreItemActionCancelRequest,
) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, s.p.action.cancel(req.GetOperationID())
}

func (s ria2) AreAdditionalItemsReady(
	_ context.Context, req *restoreitemactionv2.RestoreItemActionItemsReadyRequest,
) (*restoreitemactionv2.RestoreItemActionItemsReadyResponse, error) {
	return &restoreitemactionv2.RestoreItemActionItemsReadyResponse{Ready: true},
		s.p.action.ready(req.GetAdditionalItems())
}

type dia1 struct {
	deleteitemactionv1.UnimplementedDeleteItemActionServer
	p *program
}

func (s dia1) AppliesTo(
	ctx context.Context, _ *deleteitemactionv1.DeleteItemActionAppliesToRequest,
) (*deleteitemactionv1.DeleteItemActionAppliesToResponse, error) {
	selector, err := s.p.action.appliesTo(ctx)
	return &deleteitemactionv1.DeleteItemActionAppliesToResponse{ResourceSelector: selector}, err
}

func (s dia1) Execute(
	ctx context.Context, req *deleteitemactionv1.DeleteItemActionExecuteRequest,
) (*shared.Empty, error) {
	_, err := s.p.action.execute(ctx, request{item: req.GetItem(), owner: req.GetBackup(), unknown: odd(req)})
	return &shared.Empty{}, err
}

type iba1 struct {
	itemblockactionv1.UnimplementedItemBlockActionServer
	p *program
}

func (s iba1) AppliesTo(
	ctx context.Context, _ *itemblockactionv1.ItemBlockActionAppliesToRequest,
) (*itemblockactionv1.ItemBlockActionAppliesToResponse, error) {
	selector, err := s.p.action.appliesTo(ctx)
	return &itemblockactionv1.ItemBlockActionAppliesToResponse{ResourceSelector: selector}, err
}

func (s iba1) GetRelatedItems(
	ctx context.Context, req *itemblockactionv1.ItemBlockActionGetRelatedItemsRequest,
) (*itemblockactionv1.ItemBlockActionGetRelatedItemsResponse, error) {
	got, err := s.p.action.execute(ctx, request{item: req.GetItem(), owner: req.GetBackup(), unknown: odd(req)})
	if err != nil {
		return nil, err
	}
	return &itemblockactionv1.ItemBlockActionGetRelatedItemsResponse{RelatedItems: got.additional}, nil
}
