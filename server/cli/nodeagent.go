package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/takeover"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

func newNodeAgentCommand(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node-agent",
		Short: "Work with the agents of nodes",
	}
	cmd.AddCommand(newNodeAgentServerCommand(a), newNodeAgentMoveCommand(a), newNodeAgentHoldCommand())
	return cmd
}

// agentFlags are the flags of an agent, and of the program that it runs in the pod of a load.
type agentFlags struct {
	server serverFlags
	agent  app.NodeAgent
}

func (f *agentFlags) add(flags *pflag.FlagSet) {
	f.server.options = config.Defaults()
	f.agent = app.NodeAgent{Node: os.Getenv("NODE_NAME"), HostPods: "/host_pods", PrepareTimeout: 30 * time.Minute,
		Pod: ownPod(), MoveInPods: true}
	f.server.options.AddAgentFlags(flags)
	addVerbosity(flags)
	flags.StringVar(&f.server.file, "config", "", "configuration file with the policy nodeAgent.soothing and the "+
		"settings of plugins; see examples/config/cleat.yaml")
	agent := &f.agent
	flags.StringVar(&agent.Node, "node-name", agent.Node, "name of the node; default $NODE_NAME")
	flags.StringVar(&agent.ConfigMap, "node-agent-configmap", "",
		"ConfigMap with the settings of node agents, which is read at the start")
	flags.StringSliceVar(&agent.Namespaces, "volume-namespaces", nil,
		"namespaces whose volumes the agent may open; default all. \"cleat install --rbac least\" sets it")
	flags.StringVar(&agent.HostPods, "host-pods", agent.HostPods,
		"directory in which the kubelet mounts the volumes of pods, as this process sees it")
	flags.StringVar(&agent.Pod, "pod-name", agent.Pod,
		"name of the pod in which the agent runs; default $POD_NAME, or else the name of the host")
	flags.DurationVar(&agent.PrepareTimeout, "data-mover-prepare-timeout", agent.PrepareTimeout,
		"how long a load may be Accepted before it fails")
	flags.BoolVar(&agent.MoveInPods, "move-in-pods", agent.MoveInPods, "move the data of each load in a pod of its own, "+
		"which outlives this agent, if the agent runs in a pod; otherwise the agent moves it")
}

// agentProgram returns "cleat node-agent server", with the flags of all commands.
func agentProgram() takeover.Program {
	f := new(agentFlags)
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	f.add(flags)
	(&command.ClusterFlags{}).Add(flags)
	return takeover.Program{
		Flags: flags, Complete: func() error { return errors.Join(f.check(), f.server.options.Complete()) },
		Warnings: func() []string { return f.server.options.Warnings(flags) },
		Check: func(
			ctx context.Context, reader client.Reader, namespace string, _ []velerov1.BackupRepository,
		) (without, wrong []string) {
			return app.CheckNodeAgent(ctx, reader, namespace, &f.server.options, f.agent)
		},
	}
}

func newNodeAgentServerCommand(a *command.App) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the agent of a node",
		Long: "Run the agent of a node: it moves the data of the node's volumes, for PodVolumeBackups, PodVolumeRestores,\n" +
			"DataUploads and DataDownloads. Exactly one runs on each node.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(a, cmd, func(c app.Config) error { return app.ServeNodeAgent(cmd.Context(), c, f.agent) })
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// newNodeAgentMoveCommand returns what runs in the pods in which agents have loads moved. It has the flags of the
// agent.
func newNodeAgentMoveCommand(a *command.App) *cobra.Command {
	var f agentFlags
	var order app.MoveOrder
	cmd := &cobra.Command{
		Use:    "move",
		Short:  "Move the data of one load, as the program of its pod",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(a, cmd, func(c app.Config) error { return app.MoveLoad(cmd.Context(), c, f.agent, &order) })
		},
	}
	f.add(cmd.Flags())
	order.AddFlags(cmd.Flags())
	return cmd
}

// ownPod returns the name of the pod in which the process runs, if it runs in one.
func ownPod() string {
	host, _ := os.Hostname() // without one, no pod is found
	return cmp.Or(os.Getenv("POD_NAME"), host)
}

// newNodeAgentHoldCommand returns what runs in the pods by which agents expose volumes.
func newNodeAgentHoldCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "hold",
		Short:  "Hold the volumes of a pod until it is deleted",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}

// check validates the flags, except for the name of the node.
func (f *agentFlags) check() error {
	if f.agent.PrepareTimeout <= 0 {
		return fmt.Errorf("--data-mover-prepare-timeout %s: want more than 0", f.agent.PrepareTimeout)
	}
	for _, namespace := range f.agent.Namespaces {
		if err := kubeapi.CheckName("--volume-namespaces", namespace); err != nil {
			return err
		}
	}
	return nil
}

// run checks the flags and calls do.
func (f *agentFlags) run(a *command.App, cmd *cobra.Command, do func(app.Config) error) error {
	if f.agent.Node == "" {
		return errors.New("the name of the node is missing; set --node-name or $NODE_NAME")
	}
	if err := f.check(); err != nil {
		return err
	}
	c, err := serverConfig(a, cmd, &f.server)
	if err != nil {
		return err
	}
	for _, warning := range c.Options.Warnings(cmd.Flags()) {
		c.Log.Warn(warning)
	}
	if c.REST, err = a.Cluster.RestConfig(); err != nil {
		return err
	}
	if c.Namespace, err = a.Cluster.NamespaceOrDefault(); err != nil {
		return err
	}
	ctrl.SetLogger(app.NewLogr(c.Log.Named("controller-runtime")))
	klog.SetLogger(app.NewLogr(c.Log.Named("client-go")))
	limitGarbage()
	return do(c)
}
