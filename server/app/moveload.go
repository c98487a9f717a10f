package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/node"
	"github.com/cleat-dev/cleat/server/internal/node/loadpod"
	"github.com/cleat-dev/cleat/server/internal/node/repository"
)

// MoveOrder is what a pod of its own is to move.
type MoveOrder = loadpod.Order

// MoveLoad makes one attempt to move the data of a load, in a pod of its own, and writes the result as the termination
// message of the pod. The agent of the node follows it. If ctx ends, the data mover gets some time to clean up.
func MoveLoad(ctx context.Context, c Config, agent NodeAgent, order *MoveOrder) error {
	result, err := moveLoad(ctx, c, agent, order)
	if err != nil { // what the attempt needs is not there
		result = &loadpod.Result{ID: order.ID(), Error: err.Error(), Lost: ctx.Err() != nil}
	}
	text, err := result.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(loadpod.MessagePath, text, 0o600); err != nil {
		return fmt.Errorf("write the result of the attempt: %w", err)
	}
	if result.Error != "" {
		return fmt.Errorf("%s %s was not moved: %s", order.Kind, order.Name, result.Error)
	}
	c.Log.Info("the data was moved", "kind", order.Kind, "name", order.Name, "bytes", result.Bytes)
	return nil
}

func moveLoad(ctx context.Context, c Config, agent NodeAgent, order *MoveOrder) (*loadpod.Result, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	direct, err := client.New(c.REST, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server %s: %w", c.REST.Host, err)
	}
	live := run.Patience{For: c.Options.APIOutageTimeout, Log: c.Log.Named("api-server")}.Reader(direct)
	c.File = agentFile(c.File)
	plugins, err := NewHost(ctx, c, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	defer plugins.Close()
	opener, _, closeOpener, err := newOpener(c, live, location.PluginHost{Host: plugins})
	if err != nil {
		return nil, err
	}
	defer closeOpener()
	movers := newEnclosedMovers(c, plugins, 1)
	movers.stays = false
	cluster := &run.Cluster{Client: direct, Live: live, Namespace: c.Namespace}
	a := &node.Agent{
		Cluster: cluster, Node: agent.Node, HostPods: agent.HostPods, Namespaces: agent.Namespaces,
		Keys: loadkey.New(signing.Open(live, nil, c.Namespace, time.Now)), Movers: movers,
		Repositories: &repository.Opener{Cluster: cluster, Locations: opener, Identity: run.NewIdentity(agent.Node),
			Now: time.Now, Log: c.Log.Named("repositories")},
		StoreOutage: c.Options.StoreOutageTimeout, Log: c.Log.Named("move"), Now: time.Now,
	}
	reporter := loadpod.NewReporter(loadpod.ProgressDir)
	defer reporter.Stop()
	return a.Move(ctx, order, reporter), nil
}
