package wire

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	diav1 "github.com/cleat-dev/cleat/framework/deleteitemaction/v1"
	ibav1 "github.com/cleat-dev/cleat/framework/itemblockaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
	asyncrestoreitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncrestoreitemaction/v1"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	deleteitemactionv1 "github.com/cleat-dev/cleat/proto/velero/deleteitemaction/v1"
	itemblockactionv1 "github.com/cleat-dev/cleat/proto/velero/itemblockaction/v1"
	restoreitemactionv1 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v1"
	restoreitemactionv2 "github.com/cleat-dev/cleat/proto/velero/restoreitemaction/v2"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Request asks an action about one item.
type Request struct {
	Plugin     string
	Item       []byte
	Owner      []byte // JSON of the Backup or Restore
	FromBackup []byte // of a restore: the item as it is in the backup
	Key        string // of a Start
	Newer      bool   // the request has a field that the plugin does not know
	Padding    int    // bytes that replace paddingWord in the item on the wire
}

// Answer holds what an action answers about one item. Fields that a kind does not have are empty.
type Answer struct {
	Item       []byte
	Additional []*shared.ResourceIdentifier // or related
	After      []*shared.ResourceIdentifier
	Skip       bool
	Operation  string
	Timeout    *durationpb.Duration
	Raw        proto.Message // the whole reply
}

// ActionKind describes how one kind and version of action is called. Functions are nil where the kind has no such call.
type ActionKind struct {
	Restore  bool // it works for restores
	Answers  bool // its reply has an item
	SameItem bool // the item in the reply must be the same object
	Keyed    bool // its starts have keys

	AppliesTo func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error)
	Execute   func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error)
	Progress  func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string,
		owner []byte) (*shared.OperationProgress, error)
	// Cancel also returns whether the plugin says that the operation is going to end.
	Cancel func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error)
	Ready  func(ctx context.Context, conn *grpc.ClientConn, plugin string, items []*shared.ResourceIdentifier,
		owner []byte) error
}

// ActionKinds returns all kinds of actions, by their names on the wire.
func ActionKinds() map[string]ActionKind {
	return map[string]ActionKind{
		biav1.Kind().Wire:  backupItemActionV1(),
		biav2.Kind().Wire:  backupItemActionV2(),
		abiav1.Kind().Wire: asyncBackupItemActionV1(),
		riav1.Kind().Wire:  restoreItemActionV1(),
		riav2.Kind().Wire:  restoreItemActionV2(),
		ariav1.Kind().Wire: asyncRestoreItemActionV1(),
		diav1.Kind().Wire:  deleteItemActionV1(),
		ibav1.Kind().Wire:  itemBlockActionV1(),
	}
}

// KindsWhere returns the names of the kinds of actions for which where holds, in a fixed order.
func KindsWhere(where func(ActionKind) bool) []string {
	var names []string
	all := ActionKinds()
	for _, kind := range kinds() {
		if action, ok := all[kind.Wire]; ok && where(action) {
			names = append(names, kind.Wire)
		}
	}
	return names
}

// asked returns request, with an unknown field if q asks for one.
func asked[M proto.Message](q Request, request M) M {
	if q.Newer {
		return WithUnknown(request)
	}
	return request
}

func backupItemActionV1() ActionKind {
	client := backupitemactionv1.NewBackupItemActionClient
	return ActionKind{
		Answers: true, SameItem: true,
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &backupitemactionv1.BackupItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).Execute(ctx,
				asked(q, &backupitemactionv1.ExecuteRequest{Plugin: q.Plugin, Item: q.Item, Backup: q.Owner}))
			return &Answer{Item: got.GetItem(), Additional: got.GetAdditionalItems(), Raw: got}, err
		},
	}
}

func backupItemActionV2() ActionKind {
	client := backupitemactionv2.NewBackupItemActionClient
	return ActionKind{
		Answers: true, SameItem: true,
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &backupitemactionv2.BackupItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).Execute(ctx,
				asked(q, &backupitemactionv2.ExecuteRequest{Plugin: q.Plugin, Item: q.Item, Backup: q.Owner}))
			return &Answer{
				Item: got.GetItem(), Additional: got.GetAdditionalItems(), After: got.GetPostOperationItems(),
				Operation: got.GetOperationID(), Raw: got,
			}, err
		},
		Progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string,
			owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &backupitemactionv2.BackupItemActionProgressRequest{Plugin: plugin,
				OperationID: operation, Backup: owner})
			return got.GetProgress(), err
		},
		Cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			_, err := client(conn).Cancel(ctx, &backupitemactionv2.BackupItemActionCancelRequest{Plugin: plugin,
				OperationID: operation, Backup: owner})
			return err == nil, err
		},
	}
}

func asyncBackupItemActionV1() ActionKind {
	client := asyncbackupitemactionv1.NewAsyncBackupItemActionServiceClient
	return ActionKind{
		Answers: true, SameItem: true, Keyed: true,
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &asyncbackupitemactionv1.AppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).Start(ctx,
				asked(q, &asyncbackupitemactionv1.StartRequest{Plugin: q.Plugin, Item: q.Item, Backup: q.Owner, Key: q.Key}))
			return &Answer{
				Item: got.GetItem(), Additional: got.GetAdditionalItems(), After: got.GetPostOperationItems(),
				Operation: got.GetOperationId(), Raw: got,
			}, err
		},
		Progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string,
			owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &asyncbackupitemactionv1.ProgressRequest{Plugin: plugin,
				OperationId: operation, Backup: owner})
			return got.GetProgress(), err
		},
		Cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			got, err := client(conn).Cancel(ctx, &asyncbackupitemactionv1.CancelRequest{Plugin: plugin, OperationId: operation,
				Backup: owner})
			return got.GetAck(), err
		},
	}
}

func restoreItemActionV1() ActionKind {
	client := restoreitemactionv1.NewRestoreItemActionClient
	return ActionKind{
		Restore: true, Answers: true,
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &restoreitemactionv1.RestoreItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).Execute(ctx, asked(q, &restoreitemactionv1.RestoreItemActionExecuteRequest{
				Plugin: q.Plugin, Item: q.Item, Restore: q.Owner, ItemFromBackup: q.FromBackup,
			}))
			return &Answer{Item: got.GetItem(), Additional: got.GetAdditionalItems(), Skip: got.GetSkipRestore(), Raw: got}, err
		},
	}
}

func restoreItemActionV2() ActionKind {
	client := restoreitemactionv2.NewRestoreItemActionClient
	return ActionKind{
		Restore: true, Answers: true,
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &restoreitemactionv2.RestoreItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).Execute(ctx, asked(q, &restoreitemactionv2.RestoreItemActionExecuteRequest{
				Plugin: q.Plugin, Item: q.Item, Restore: q.Owner, ItemFromBackup: q.FromBackup,
			}))
			return &Answer{
				Item: got.GetItem(), Additional: got.GetAdditionalItems(), Skip: got.GetSkipRestore(),
				Operation: got.GetOperationID(),
				Timeout:   got.GetAdditionalItemsReadyTimeout(), Raw: got,
			}, err
		},
		Progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string,
			owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &restoreitemactionv2.RestoreItemActionProgressRequest{Plugin: plugin,
				OperationID: operation, Restore: owner})
			return got.GetProgress(), err
		},
		Cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			_, err := client(conn).Cancel(ctx, &restoreitemactionv2.RestoreItemActionCancelRequest{Plugin: plugin,
				OperationID: operation, Restore: owner})
			return err == nil, err
		},
		Ready: func(ctx context.Context, conn *grpc.ClientConn, plugin string, items []*shared.ResourceIdentifier,
			owner []byte) error {
			_, err := client(conn).AreAdditionalItemsReady(ctx, &restoreitemactionv2.RestoreItemActionItemsReadyRequest{
				Plugin: plugin, Restore: owner, AdditionalItems: items,
			})
			return err
		},
	}
}

func asyncRestoreItemActionV1() ActionKind {
	client := asyncrestoreitemactionv1.NewAsyncRestoreItemActionServiceClient
	return ActionKind{
		Restore: true, Answers: true, Keyed: true,
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &asyncrestoreitemactionv1.AppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).Start(ctx, asked(q, &asyncrestoreitemactionv1.StartRequest{
				Plugin: q.Plugin, Item: q.Item, Restore: q.Owner, ItemFromBackup: q.FromBackup, Key: q.Key,
			}))
			return &Answer{
				Item: got.GetItem(), Additional: got.GetAdditionalItems(), Skip: got.GetSkipRestore(),
				Operation: got.GetOperationId(), Raw: got,
			}, err
		},
		Progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string,
			owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &asyncrestoreitemactionv1.ProgressRequest{Plugin: plugin,
				OperationId: operation, Restore: owner})
			return got.GetProgress(), err
		},
		Cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			got, err := client(conn).Cancel(ctx, &asyncrestoreitemactionv1.CancelRequest{Plugin: plugin, OperationId: operation,
				Restore: owner})
			return got.GetAck(), err
		},
	}
}

func deleteItemActionV1() ActionKind {
	client := deleteitemactionv1.NewDeleteItemActionClient
	return ActionKind{
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &deleteitemactionv1.DeleteItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).Execute(ctx,
				asked(q, &deleteitemactionv1.DeleteItemActionExecuteRequest{Plugin: q.Plugin, Item: q.Item, Backup: q.Owner}))
			return &Answer{Raw: got}, err
		},
	}
}

func itemBlockActionV1() ActionKind {
	client := itemblockactionv1.NewItemBlockActionClient
	return ActionKind{
		AppliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &itemblockactionv1.ItemBlockActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		Execute: func(ctx context.Context, conn *grpc.ClientConn, q Request) (*Answer, error) {
			got, err := client(conn).GetRelatedItems(ctx,
				asked(q, &itemblockactionv1.ItemBlockActionGetRelatedItemsRequest{Plugin: q.Plugin, Item: q.Item, Backup: q.Owner}))
			return &Answer{Additional: got.GetRelatedItems(), Raw: got}, err
		},
	}
}
