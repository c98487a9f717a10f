// Package storage has the rules of object stores and volume snapshotters, which are configured by a call of Init. Start
// reading at init.go; store.go and snapshotter.go call the plugins.
package storage

import (
	"slices"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// Rules returns the rules of ObjectStore and VolumeSnapshotter.
func Rules() []suite.Rule { return slices.Concat(storeRules(), snapshotterRules()) }
