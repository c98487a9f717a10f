package pluginhost

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// askAll asks sources what they offer, a few at a time; one that hangs does not hold up the others.
func (h *Host) askAll(ctx context.Context, sources []*source) {
	places := make(chan struct{}, 2+2*runtime.GOMAXPROCS(0))
	var asked sync.WaitGroup
	for _, from := range sources {
		if from.err != nil {
			continue
		}
		places <- struct{}{}
		asked.Go(func() {
			defer func() { <-places }()
			from.offer, from.unserved, from.err = h.ask(ctx, from)
		})
	}
	asked.Wait()
}

// ask is what a source says that it offers, and which of the kinds that it names it does not serve.
func (h *Host) ask(ctx context.Context, from *source) (versioning.Description, []string, error) {
	if from.supervisor == nil {
		offer, err := versioning.Describe(ctx, h.services)
		return offer, nil, err
	}
	if err := from.supervisor.ready(ctx, ""); err != nil {
		return versioning.Description{}, nil, err
	}
	process := &conn{supervisor: from.supervisor}
	offer, err := versioning.Describe(ctx, process)
	if err != nil {
		return versioning.Description{}, nil, err
	}
	if !from.builtIn {
		if err := h.trust.checkProvides(from.command, offer.Listed()); err != nil {
			from.retire()
			return versioning.Description{}, nil, err
		}
	}
	return offer, h.unserved(ctx, process, offer), nil
}

// unserved are the names on the wire of the kinds that are offered but not there.
func (h *Host) unserved(ctx context.Context, process grpc.ClientConnInterface, offer versioning.Description) []string {
	if h.deadlines.Query > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.deadlines.Query)
		defer cancel()
	}
	var absent, asked []string
	for _, plugin := range offer.Plugins {
		version, known := versioning.Lookup(h.kinds, plugin.Kind)
		if !known || slices.Contains(asked, plugin.Kind) {
			continue
		}
		asked = append(asked, plugin.Kind)
		if !version.Served(ctx, process) {
			absent = append(absent, plugin.Kind)
		}
	}
	return absent
}
