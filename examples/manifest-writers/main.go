// Command manifest-writers describes backups in two files beside each of them: a table of its items in Parquet, and an
// inventory of the container images that it needs. See README.md.
package main

import (
	"github.com/cleat-dev/cleat/framework"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

func main() { framework.Serve(registrations()...) }

func registrations() []framework.Registration {
	return []framework.Registration{
		mwv1.Register("example.cleat.dev/parquet", newTable),
		mwv1.Register("example.cleat.dev/images", newInventory, mwv1.WithObjects(workloads()...)),
	}
}
