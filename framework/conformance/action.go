package conformance

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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

// question is a call that asks an action about one item.
type question struct {
	plugin     string
	item       []byte
	owner      []byte // JSON of the Backup or Restore
	fromBackup []byte // of a restore: the item as it is in the backup
	key        string // of a Start
	newer      bool   // the request has a field that the plugin does not know
	padding    int    // bytes that replace paddingWord in the item on the wire
}

// answer holds what an action answers about one item. Fields that a kind does not have are empty.
type answer struct {
	item       []byte
	additional []*shared.ResourceIdentifier // or related
	after      []*shared.ResourceIdentifier
	skip       bool
	operation  string
	timeout    *durationpb.Duration
	raw        proto.Message // the whole reply
}

// actionKind describes how one kind and version of action is called. Functions are nil where the kind has no such call.
type actionKind struct {
	restore  bool // it works for restores
	answers  bool // its reply has an item
	sameItem bool // the item in the reply must be the same object
	keyed    bool // its starts have keys

	appliesTo func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error)
	execute   func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error)
	progress  func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (*shared.OperationProgress, error)
	// cancel also returns whether the plugin says that the operation is going to end.
	cancel func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error)
	ready  func(ctx context.Context, conn *grpc.ClientConn, plugin string, items []*shared.ResourceIdentifier, owner []byte) error
}

// actionKinds returns all kinds of actions, by their names on the wire.
func actionKinds() map[string]actionKind {
	return map[string]actionKind{
		"BackupItemAction":       backupItemActionV1(),
		"BackupItemActionV2":     backupItemActionV2(),
		"AsyncBackupItemAction":  asyncBackupItemActionV1(),
		"RestoreItemAction":      restoreItemActionV1(),
		"RestoreItemActionV2":    restoreItemActionV2(),
		"AsyncRestoreItemAction": asyncRestoreItemActionV1(),
		"DeleteItemAction":       deleteItemActionV1(),
		"ItemBlockAction":        itemBlockActionV1(),
	}
}

// kindsWhere returns the names of the kinds of actions for which where holds, in a fixed order.
func kindsWhere(where func(actionKind) bool) []string {
	var kinds []string
	all := actionKinds()
	for _, kind := range []string{
		"BackupItemAction", "BackupItemActionV2", "AsyncBackupItemAction",
		"RestoreItemAction", "RestoreItemActionV2", "AsyncRestoreItemAction", "DeleteItemAction", "ItemBlockAction",
	} {
		if where(all[kind]) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// asked returns request, with an unknown field if q asks for one.
func asked[M proto.Message](q question, request M) M {
	if q.newer {
		return withUnknown(request)
	}
	return request
}

func backupItemActionV1() actionKind {
	client := backupitemactionv1.NewBackupItemActionClient
	return actionKind{
		answers: true, sameItem: true,
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &backupitemactionv1.BackupItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).Execute(ctx, asked(q, &backupitemactionv1.ExecuteRequest{Plugin: q.plugin, Item: q.item, Backup: q.owner}))
			return &answer{item: got.GetItem(), additional: got.GetAdditionalItems(), raw: got}, err
		},
	}
}

func backupItemActionV2() actionKind {
	client := backupitemactionv2.NewBackupItemActionClient
	return actionKind{
		answers: true, sameItem: true,
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &backupitemactionv2.BackupItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).Execute(ctx, asked(q, &backupitemactionv2.ExecuteRequest{Plugin: q.plugin, Item: q.item, Backup: q.owner}))
			return &answer{
				item: got.GetItem(), additional: got.GetAdditionalItems(), after: got.GetPostOperationItems(), operation: got.GetOperationID(), raw: got,
			}, err
		},
		progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &backupitemactionv2.BackupItemActionProgressRequest{Plugin: plugin, OperationID: operation, Backup: owner})
			return got.GetProgress(), err
		},
		cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			_, err := client(conn).Cancel(ctx, &backupitemactionv2.BackupItemActionCancelRequest{Plugin: plugin, OperationID: operation, Backup: owner})
			return err == nil, err
		},
	}
}

func asyncBackupItemActionV1() actionKind {
	client := asyncbackupitemactionv1.NewAsyncBackupItemActionServiceClient
	return actionKind{
		answers: true, sameItem: true, keyed: true,
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &asyncbackupitemactionv1.AppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).Start(ctx, asked(q, &asyncbackupitemactionv1.StartRequest{Plugin: q.plugin, Item: q.item, Backup: q.owner, Key: q.key}))
			return &answer{
				item: got.GetItem(), additional: got.GetAdditionalItems(), after: got.GetPostOperationItems(), operation: got.GetOperationId(), raw: got,
			}, err
		},
		progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &asyncbackupitemactionv1.ProgressRequest{Plugin: plugin, OperationId: operation, Backup: owner})
			return got.GetProgress(), err
		},
		cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			got, err := client(conn).Cancel(ctx, &asyncbackupitemactionv1.CancelRequest{Plugin: plugin, OperationId: operation, Backup: owner})
			return got.GetAck(), err
		},
	}
}

func restoreItemActionV1() actionKind {
	client := restoreitemactionv1.NewRestoreItemActionClient
	return actionKind{
		restore: true, answers: true,
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &restoreitemactionv1.RestoreItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).Execute(ctx, asked(q, &restoreitemactionv1.RestoreItemActionExecuteRequest{
				Plugin: q.plugin, Item: q.item, Restore: q.owner, ItemFromBackup: q.fromBackup,
			}))
			return &answer{item: got.GetItem(), additional: got.GetAdditionalItems(), skip: got.GetSkipRestore(), raw: got}, err
		},
	}
}

func restoreItemActionV2() actionKind {
	client := restoreitemactionv2.NewRestoreItemActionClient
	return actionKind{
		restore: true, answers: true,
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &restoreitemactionv2.RestoreItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).Execute(ctx, asked(q, &restoreitemactionv2.RestoreItemActionExecuteRequest{
				Plugin: q.plugin, Item: q.item, Restore: q.owner, ItemFromBackup: q.fromBackup,
			}))
			return &answer{
				item: got.GetItem(), additional: got.GetAdditionalItems(), skip: got.GetSkipRestore(), operation: got.GetOperationID(),
				timeout: got.GetAdditionalItemsReadyTimeout(), raw: got,
			}, err
		},
		progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &restoreitemactionv2.RestoreItemActionProgressRequest{Plugin: plugin, OperationID: operation, Restore: owner})
			return got.GetProgress(), err
		},
		cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			_, err := client(conn).Cancel(ctx, &restoreitemactionv2.RestoreItemActionCancelRequest{Plugin: plugin, OperationID: operation, Restore: owner})
			return err == nil, err
		},
		ready: func(ctx context.Context, conn *grpc.ClientConn, plugin string, items []*shared.ResourceIdentifier, owner []byte) error {
			_, err := client(conn).AreAdditionalItemsReady(ctx, &restoreitemactionv2.RestoreItemActionItemsReadyRequest{
				Plugin: plugin, Restore: owner, AdditionalItems: items,
			})
			return err
		},
	}
}

func asyncRestoreItemActionV1() actionKind {
	client := asyncrestoreitemactionv1.NewAsyncRestoreItemActionServiceClient
	return actionKind{
		restore: true, answers: true, keyed: true,
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &asyncrestoreitemactionv1.AppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).Start(ctx, asked(q, &asyncrestoreitemactionv1.StartRequest{
				Plugin: q.plugin, Item: q.item, Restore: q.owner, ItemFromBackup: q.fromBackup, Key: q.key,
			}))
			return &answer{
				item: got.GetItem(), additional: got.GetAdditionalItems(), skip: got.GetSkipRestore(), operation: got.GetOperationId(), raw: got,
			}, err
		},
		progress: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (*shared.OperationProgress, error) {
			got, err := client(conn).Progress(ctx, &asyncrestoreitemactionv1.ProgressRequest{Plugin: plugin, OperationId: operation, Restore: owner})
			return got.GetProgress(), err
		},
		cancel: func(ctx context.Context, conn *grpc.ClientConn, plugin, operation string, owner []byte) (bool, error) {
			got, err := client(conn).Cancel(ctx, &asyncrestoreitemactionv1.CancelRequest{Plugin: plugin, OperationId: operation, Restore: owner})
			return got.GetAck(), err
		},
	}
}

func deleteItemActionV1() actionKind {
	client := deleteitemactionv1.NewDeleteItemActionClient
	return actionKind{
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &deleteitemactionv1.DeleteItemActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).Execute(ctx, asked(q, &deleteitemactionv1.DeleteItemActionExecuteRequest{Plugin: q.plugin, Item: q.item, Backup: q.owner}))
			return &answer{raw: got}, err
		},
	}
}

func itemBlockActionV1() actionKind {
	client := itemblockactionv1.NewItemBlockActionClient
	return actionKind{
		appliesTo: func(ctx context.Context, conn *grpc.ClientConn, plugin string) (*shared.ResourceSelector, error) {
			got, err := client(conn).AppliesTo(ctx, &itemblockactionv1.ItemBlockActionAppliesToRequest{Plugin: plugin})
			return got.GetResourceSelector(), err
		},
		execute: func(ctx context.Context, conn *grpc.ClientConn, q question) (*answer, error) {
			got, err := client(conn).GetRelatedItems(ctx, asked(q, &itemblockactionv1.ItemBlockActionGetRelatedItemsRequest{Plugin: q.plugin, Item: q.item, Backup: q.owner}))
			return &answer{additional: got.GetRelatedItems(), raw: got}, err
		},
	}
}
