// Command 2022 is a plugin as vendors built them in 2022: actions for backups, restores and deletions.
package main

import (
	"bytes"

	"github.com/pkg/errors"
	"github.com/sirupsen/logrus"

	"example.org/stock/library"
)

func main() {
	library.NewServer("BackupItemAction", "VolumeSnapshotter", "ObjectStore", "RestoreItemAction", "DeleteItemAction").
		Register("BackupItemAction", "velero.io/stock-2022-backup", newAction).
		Register("RestoreItemAction", "velero.io/stock-2022-restore", func(log logrus.FieldLogger) (interface{}, error) {
			return restore{log}, nil
		}).
		Register("DeleteItemAction", "velero.io/stock-2022-delete", func(log logrus.FieldLogger) (interface{}, error) {
			return remove{log}, nil
		}).
		Serve()
}

func newAction(log logrus.FieldLogger) (interface{}, error) { return backup{log}, nil }

func appliesTo() *library.AppliesToResponse {
	return &library.AppliesToResponse{ResourceSelector: &library.ResourceSelector{
		IncludedNamespaces: []string{"shop"}, ExcludedResources: []string{"events"}, Selector: "app=web",
	}}
}

type backup struct{ log logrus.FieldLogger }

func (backup) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return appliesTo(), nil
}

func (b backup) Execute(in *library.ItemRequest) (*library.BackupItemResponse, error) {
	b.log.Info("stock backup action runs")
	return &library.BackupItemResponse{Item: in.Item}, nil
}

type restore struct{ log logrus.FieldLogger }

func (restore) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return appliesTo(), nil
}

func (r restore) Execute(in *library.RestoreItemRequest) (*library.RestoreItemResponse, error) {
	r.log.Info("stock restore action runs")
	return &library.RestoreItemResponse{Item: in.Item, AdditionalItems: []*library.ResourceIdentifier{
		{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"},
	}}, nil
}

type remove struct{ log logrus.FieldLogger }

func (remove) AppliesTo(*library.AppliesToRequest) (*library.AppliesToResponse, error) {
	return appliesTo(), nil
}

func (r remove) Execute(in *library.ItemRequest) (*library.Empty, error) {
	r.log.Info("stock delete action runs")
	if bytes.Contains(in.Item, []byte(`"stays"`)) {
		return nil, errors.New("it has to stay")
	}
	return &library.Empty{}, nil
}
