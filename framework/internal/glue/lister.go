package glue

import (
	"context"
	"os"

	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// listedKinds are the kinds that a plugin's list may contain, in the order of the list. Stock Velero does not start if
// the list contains others, so the kinds of this project are served but not listed: PluginInfo reports them.
func listedKinds() []string {
	return []string{
		"BackupItemAction", "BackupItemActionV2", "VolumeSnapshotter", "ObjectStore",
		"RestoreItemAction", "RestoreItemActionV2", "DeleteItemAction", "ItemBlockAction",
	}
}

// lister implements PluginLister.
type lister struct {
	pluginlisterv1.UnimplementedPluginListerServer
	plugins []*pluginlisterv1.PluginIdentifier
}

func newLister(c *catalog) *lister {
	l := &lister{}
	for _, kind := range listedKinds() {
		service, ok := c.services[kind]
		if !ok {
			continue
		}
		for _, name := range service.names() {
			l.plugins = append(l.plugins,
				&pluginlisterv1.PluginIdentifier{Command: os.Args[0], Kind: kind, Name: name})
		}
	}
	return l
}

func (l *lister) ListPlugins(context.Context, *shared.Empty) (*pluginlisterv1.ListPluginsResponse, error) {
	return &pluginlisterv1.ListPluginsResponse{Plugins: l.plugins}, nil
}
