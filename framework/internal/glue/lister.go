package glue

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"

	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// lister implements PluginLister. Stock Velero does not start if the list contains unknown kinds, so the kinds of this
// project are served but not listed: PluginInfo reports them.
type lister struct {
	pluginlisterv1.UnimplementedPluginListerServer
	plugins []*pluginlisterv1.PluginIdentifier
}

func newLister(c *catalog) *lister {
	l := &lister{}
	byPosition := slices.SortedFunc(maps.Values(c.services), func(a, b service) int {
		return cmp.Compare(a.version().Listed, b.version().Listed)
	})
	for _, service := range byPosition {
		kind := service.version()
		if kind.Listed == 0 {
			continue
		}
		for _, name := range service.names() {
			l.plugins = append(l.plugins, &pluginlisterv1.PluginIdentifier{Command: os.Args[0], Kind: kind.Wire, Name: name})
		}
	}
	return l
}

func (l *lister) ListPlugins(context.Context, *shared.Empty) (*pluginlisterv1.ListPluginsResponse, error) {
	return &pluginlisterv1.ListPluginsResponse{Plugins: l.plugins}, nil
}
