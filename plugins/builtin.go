// Package plugins lists the plugins that are part of the server. Each has a folder of its own and is built on
// framework, like any other plugin.
package plugins

import (
	"slices"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/plugins/internal/location"
	"github.com/cleat-dev/cleat/plugins/itemactions"
	"github.com/cleat-dev/cleat/plugins/loadsoothing/preparequeue"
	"github.com/cleat-dev/cleat/plugins/manifestwriter/itemlist"
	"github.com/cleat-dev/cleat/plugins/manifestwriter/manifest"
	"github.com/cleat-dev/cleat/plugins/queueadmission/fifo"
	"github.com/cleat-dev/cleat/plugins/queueadmission/itemoverlap"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
	"github.com/cleat-dev/cleat/plugins/queueadmission/priority"
	"github.com/cleat-dev/cleat/plugins/s3store"
	"github.com/cleat-dev/cleat/plugins/sealed"
)

// All returns the built-in plugins in the order in which the server uses them. The options choose the cluster that the
// item actions query.
func All(actions ...itemactions.Option) []framework.Registration {
	return slices.Concat(
		itemactions.Register(actions...),
		[]framework.Registration{filestore.Register(), s3store.Register(), sealed.Register()},
		Policies(),
	)
}

// CheckVolumes returns an error unless the data movers of the project can keep the data of volumes in a location with a
// provider and its configuration. It does not access the location.
func CheckVolumes(provider string, config map[string]string) error {
	return location.Validate(dmv1.Repository{Provider: provider, Config: config, Path: "NAMESPACE"}, "a data mover")
}

// Policies returns the built-in plugins that decide and describe. The server uses them where its configuration names no
// others.
func Policies() []framework.Registration {
	return []framework.Registration{
		fifo.Register(), namespaceoverlap.Register(), priority.Register(), itemoverlap.Register(),
		preparequeue.Register(), manifest.Register(), itemlist.Register(),
	}
}
