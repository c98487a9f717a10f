// Command 2024 is a plugin as vendors built them in 2024: actions of version 2, which start operations, an action of
// version 1 with the same name, and an item block action.
package main

import (
	"time"

	"github.com/pkg/errors"
	"github.com/sirupsen/logrus"

	"example.org/stock/library"
)

func main() {
	library.NewServer("BackupItemAction", "BackupItemActionV2", "VolumeSnapshotter", "ObjectStore",
		"RestoreItemAction", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction").
		Register("BackupItemAction", "velero.io/stock-2024", func(logrus.FieldLogger) (interface{}, error) {
			return oldBackup{}, nil
		}).
		Register("BackupItemActionV2", "velero.io/stock-2024", func(log logrus.FieldLogger) (interface{}, error) {
			return backup{log}, nil
		}).
		Register("RestoreItemActionV2", "velero.io/stock-2024", func(log logrus.FieldLogger) (interface{}, error) {
			return restore{log}, nil
		}).
		Register("ItemBlockAction", "velero.io/stock-2024-block", func(log logrus.FieldLogger) (interface{}, error) {
			return block{log}, nil
		}).
		Serve()
}

type action struct{}

func (action) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return &library.AppliesToResponse{ResourceSelector: &library.ResourceSelector{IncludedResources: []string{"pods",
		"*.example.io"}}}, nil
}

// Progress returns the progress of the operation copy-1.
func (action) Progress(in *library.OperationRequest) (*library.ProgressResponse, error) {
	if in.OperationID != "copy-1" {
		return nil, errors.Errorf("no operation %s", in.OperationID)
	}
	at := time.Date(2024, 5, 1, 12, 0, 0, 5000, time.UTC)
	return &library.ProgressResponse{Progress: &library.OperationProgress{
		Completed: true, Err: "disk full", NCompleted: 3, NTotal: 7, OperationUnits: "bytes", Description: "copying",
		Started: library.At(at), Updated: library.At(at.Add(time.Second)),
	}}, nil
}

// Cancel does nothing.
func (action) Cancel(in *library.OperationRequest) (*library.Empty, error) {
	if in.OperationID != "copy-1" {
		return nil, errors.Errorf("no operation %s", in.OperationID)
	}
	return &library.Empty{}, nil
}

type backup struct{ log logrus.FieldLogger }

func (backup) AppliesTo(in *library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return action{}.AppliesTo(in)
}
func (backup) Progress(in *library.OperationRequest) (*library.ProgressResponse, error) {
	return action{}.Progress(in)
}
func (backup) Cancel(in *library.OperationRequest) (*library.Empty, error) {
	return action{}.Cancel(in)
}

func (b backup) Execute(in *library.ItemRequest) (*library.BackupItemResponse, error) {
	b.log.WithError(errors.New("nothing yet")).Debug("stock backup action runs")
	return &library.BackupItemResponse{
		Item: in.Item, OperationID: "copy-1",
		PostOperationItems: []*library.ResourceIdentifier{{Resource: "configmaps", Namespace: "shop", Name: "result"}},
	}, nil
}

// oldBackup is for hosts that do not support version 2.
type oldBackup struct{ action }

func (oldBackup) Execute(in *library.ItemRequest) (*library.BackupItemResponse, error) {
	return &library.BackupItemResponse{Item: in.Item}, nil
}

type restore struct{ log logrus.FieldLogger }

func (restore) AppliesTo(in *library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return action{}.AppliesTo(in)
}
func (restore) Progress(in *library.OperationRequest) (*library.ProgressResponse, error) {
	return action{}.Progress(in)
}
func (restore) Cancel(in *library.OperationRequest) (*library.Empty, error) {
	return action{}.Cancel(in)
}

func (r restore) Execute(in *library.RestoreItemRequest) (*library.RestoreItemResponse, error) {
	r.log.Error("stock restore action runs")
	return &library.RestoreItemResponse{
		Item: in.Item, OperationID: "copy-1", WaitForAdditionalItems: true,
		AdditionalItems:             []*library.ResourceIdentifier{{Resource: "secrets", Namespace: "shop", Name: "key"}},
		AdditionalItemsReadyTimeout: &library.Timestamp{Seconds: 90},
	}, nil
}

// AreAdditionalItemsReady reports whether the items are those that Execute has returned.
func (r restore) AreAdditionalItemsReady(in *library.ItemsReadyRequest) (*library.ItemsReadyResponse, error) {
	return &library.ItemsReadyResponse{Ready: len(in.AdditionalItems) == 1 && in.AdditionalItems[0].Name == "key"}, nil
}

type block struct{ log logrus.FieldLogger }

func (block) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return &library.AppliesToResponse{ResourceSelector: &library.ResourceSelector{IncludedResources: []string{"pods",
		"configmaps"}}}, nil
}

func (b block) GetRelatedItems(*library.ItemRequest) (*library.RelatedItemsResponse, error) {
	b.log.Info("stock block action runs")
	return &library.RelatedItemsResponse{RelatedItems: []*library.ResourceIdentifier{{Resource: "pods", Namespace: "shop",
		Name: "web-1"}}}, nil
}
