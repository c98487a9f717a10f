package installation

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/spf13/pflag"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// nodeAgentFlags are the flags of "install" that concern the node agents. But for the plugins, they are Velero's.
type nodeAgentFlags struct {
	use, windows, withoutHostPath bool

	o         install.NodeAgent
	resources podResources

	installed *pflag.FlagSet // about their pods
	agent     *pflag.FlagSet // the flags of "cleat node-agent server"; the server has most of them, too
	own       *pflag.FlagSet // the flags that the server lacks
}

func newNodeAgentFlags(a *command.App, server *pflag.FlagSet) nodeAgentFlags {
	f := nodeAgentFlags{
		o: install.NodeAgent{KubeletRoot: install.KubeletRoot,
			Plugins: []string{install.ImageOf(install.KopiaMoverImage, a.Version)}},
		resources: podResources{},
		installed: pflag.NewFlagSet("node agents", pflag.ContinueOnError),
		agent:     pflag.NewFlagSet("node agent", pflag.ContinueOnError),
		own:       pflag.NewFlagSet("node agent", pflag.ContinueOnError),
	}
	f.own.String("node-agent-configmap", "", "ConfigMap with the settings of node agents")
	f.own.Duration("data-mover-prepare-timeout", 30*time.Minute, "how long a load may be Accepted before it fails")
	f.agent.AddFlagSet(f.own)
	common, defaults := pflag.NewFlagSet("", pflag.ContinueOnError), config.Defaults()
	defaults.AddAgentFlags(common)
	common.VisitAll(func(flag *pflag.Flag) { f.agent.AddFlag(server.Lookup(flag.Name)) })
	return f
}

func (f *nodeAgentFlags) add(flags *pflag.FlagSet) {
	own := f.installed
	own.StringSliceVar(&f.o.Plugins, "node-agent-plugins", f.o.Plugins,
		"images of the plugins of node agents: data movers, which the server gets too, because it removes what they have "+
			"stored; --uploader-type=restic adds that for restic to the default; with an --image REGISTRY/cleat:TAG, the default "+
			"is the image beside it, REGISTRY/cleat-kopia:TAG")
	own.BoolVar(&f.o.Privileged, "privileged-node-agent", false,
		"run node agents privileged: for volumes that are block devices, and where SELinux keeps them from the volumes of "+
			"others")
	own.StringVar(&f.o.PriorityClassName, "node-agent-priority-class-name", "", "priority class of the node agents")
	own.StringVar(&f.o.KubeletRoot, "kubelet-root-dir", f.o.KubeletRoot, "directory of the kubelet on the nodes")
	f.resources.add(own, "node-agent-pod-", "the pod of a node agent", nil)
	flags.BoolVar(&f.use, "use-node-agent", false, "install the agents of the nodes, which move the data of volumes")
	flags.BoolVar(&f.windows, "use-node-agent-windows", false, "refused: the node agent does not run on Windows")
	flags.BoolVar(&f.withoutHostPath, "node-agent-disable-host-path", false,
		"refused: node agents open volumes in the directory of the kubelet")
	flags.AddFlagSet(own)
	flags.AddFlagSet(f.own)
}

// options returns the options of the node agents, nil for none. image is that of the server, and uploader the engine with
// which it stores volumes. The error lists all mistakes.
func (f *nodeAgentFlags) options(a *command.App, image, uploader string) (*install.NodeAgent, error) {
	var err error
	if f.windows {
		err = errors.New("--use-node-agent-windows: the node agent runs on Linux only; volumes of Windows nodes can be " +
			"backed up by snapshots")
	}
	if f.withoutHostPath {
		err = errors.Join(err, errors.New("--node-agent-disable-host-path: node agents open volumes in the directory of "+
			"the kubelet, and do nothing without it; leave out --use-node-agent where hostPath volumes are forbidden"))
	}
	if !f.use {
		for _, flags := range []*pflag.FlagSet{f.installed, f.own} {
			flags.VisitAll(func(flag *pflag.Flag) {
				if flag.Changed {
					fmt.Fprintf(a.Err, "Flag --%s has no effect without --use-node-agent.\n", flag.Name)
				}
			})
		}
		return nil, err
	}
	if !path.IsAbs(f.o.KubeletRoot) {
		err = errors.Join(err, fmt.Errorf("--kubelet-root-dir %q: want an absolute path", f.o.KubeletRoot))
	}
	if !f.installed.Changed("node-agent-plugins") {
		f.o.Plugins = []string{cmp.Or(install.Beside(image, install.KopiaMoverImage), f.o.Plugins[0])}
		if uploader == string(velerov1.RepositoryTypeRestic) {
			f.o.Plugins = append(f.o.Plugins, cmp.Or(install.Beside(image, install.ResticMoverImage),
				install.ImageOf(install.ResticMoverImage, a.Version)))
		}
	}
	if len(f.o.Plugins) == 0 {
		fmt.Fprintln(a.Err, "The node agents have no data mover, so they move nothing; --node-agent-plugins names the "+
			"image of one.")
	}
	f.agent.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			f.o.Args = append(f.o.Args, argument(flag))
		}
	})
	resources, e := f.resources.requirements("a node agent")
	f.o.Resources = resources
	return &f.o, errors.Join(err, e)
}
