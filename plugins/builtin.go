// Package plugins lists the plugins that are part of the server. Each lives in a folder of its own
// and is written against framework, like anyone's.
package plugins

import (
	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/plugins/itemactions"
	"github.com/cleat-dev/cleat/plugins/s3store"
)

// All are the built-in plugins, in the order in which the server uses them. The options say which cluster
// the item actions ask.
func All(actions ...itemactions.Option) []framework.Registration {
	return append(itemactions.Register(actions...), filestore.Register(), s3store.Register())
}
