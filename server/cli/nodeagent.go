package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

func newNodeAgentCommand(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node-agent",
		Short: "Work with the agents of nodes",
	}
	cmd.AddCommand(newNodeAgentServerCommand(a), newNodeAgentHoldCommand())
	return cmd
}

// agentFlagsOf returns a function that returns the flags of "cleat node-agent server", with the flags of all commands,
// and the options that they set.
func agentFlagsOf(a *command.App) func() (*pflag.FlagSet, *config.Options) {
	return func() (*pflag.FlagSet, *config.Options) {
		s := serverFlags{options: config.Defaults()}
		flags := agentCommand(a, &s).Flags()
		flags.SetOutput(io.Discard)
		(&command.ClusterFlags{}).Add(flags)
		return flags, &s.options
	}
}

func newNodeAgentServerCommand(a *command.App) *cobra.Command {
	return agentCommand(a, &serverFlags{options: config.Defaults()})
}

func agentCommand(a *command.App, s *serverFlags) *cobra.Command {
	agent := app.NodeAgent{Node: os.Getenv("NODE_NAME"), HostPods: "/host_pods", PrepareTimeout: 30 * time.Minute,
		Pod: ownPod()}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the agent of a node",
		Long: "Run the agent of a node: it moves the data of the node's volumes, for PodVolumeBackups, PodVolumeRestores,\n" +
			"DataUploads and DataDownloads. Exactly one runs on each node.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runNodeAgent(a, cmd, s, agent) },
	}
	flags := cmd.Flags()
	s.options.AddAgentFlags(flags)
	addVerbosity(flags)
	flags.StringVar(&s.file, "config", "", "configuration file with the policy nodeAgent.soothing and the settings of "+
		"plugins; see examples/config/cleat.yaml")
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

func runNodeAgent(a *command.App, cmd *cobra.Command, flags *serverFlags, agent app.NodeAgent) error {
	if agent.Node == "" {
		return errors.New("the name of the node is missing; set --node-name or $NODE_NAME")
	}
	if agent.PrepareTimeout <= 0 {
		return fmt.Errorf("--data-mover-prepare-timeout %s: want more than 0", agent.PrepareTimeout)
	}
	for _, namespace := range agent.Namespaces {
		if err := kubeapi.CheckName("--volume-namespaces", namespace); err != nil {
			return err
		}
	}
	c, err := serverConfig(a, cmd, flags)
	if err != nil {
		return err
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
	return app.ServeNodeAgent(cmd.Context(), c, agent)
}
