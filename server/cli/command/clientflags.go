package command

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// addClientFlags adds the hidden flags that all commands of Velero's client have, in addition to the flags that name
// the cluster: scripts may set them. The flags of klog change the log of the Kubernetes client.
func addClientFlags(flags *pflag.FlagSet) {
	klogs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(klogs)
	added := pflag.NewFlagSet("client", pflag.ContinueOnError)
	added.AddGoFlagSet(klogs)
	added.StringSlice("features", nil, "features of Velero's client")
	added.Bool("colorized", false, "colours in the output")
	added.VisitAll(func(f *pflag.Flag) {
		f.Hidden = true
		flags.AddFlag(f)
	})
}

// noteClientFlags prints which ignored flags were set. A command that has a flag of the same name acts on it.
func noteClientFlags(a *App, cmd *cobra.Command) {
	inherited := cmd.InheritedFlags()
	if f := inherited.Lookup("features"); f != nil && f.Changed && f.Value.String() != "[]" {
		fmt.Fprintln(a.Err, "--features is for Velero's client; cleat does not use it.")
	}
	if f := inherited.Lookup("colorized"); f != nil && f.Changed && f.Value.String() == "true" {
		fmt.Fprintln(a.Err, "--colorized has no effect; the output has no colours.")
	}
}
