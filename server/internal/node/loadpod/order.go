package loadpod

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
)

// Order is what the program in a pod is to move: one attempt of a load.
type Order struct {
	Kind, Name string
	UID        string // of the load
	Attempt    int
	// Pod and Volume are the UID of the pod, and the name of the directory in which the kubelet mounts the volume in it.
	Pod, Volume string
	Parent      string // snapshot of an earlier state of the volume; empty for none
	Again       bool   // there may have been an attempt before

	Bytes int64 // of the data, as far as it is known; not an argument
}

// AddFlags adds the flags that Args sets.
func (o *Order) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kind, "load-kind", "", "kind of the load")
	flags.StringVar(&o.Name, "load-name", "", "name of the load")
	flags.StringVar(&o.UID, "load-uid", "", "UID of the load")
	flags.IntVar(&o.Attempt, "load-attempt", 1, "number of the attempt")
	flags.StringVar(&o.Pod, "load-pod", "", "UID of the pod with the volume")
	flags.StringVar(&o.Volume, "load-volume", "", "name of the directory of the volume in the pod")
	flags.StringVar(&o.Parent, "load-parent", "", "snapshot of an earlier state of the volume")
	flags.BoolVar(&o.Again, "load-again", false, "there may have been an attempt before")
}

// Args returns the order as arguments.
func (o *Order) Args() []string {
	return []string{
		"--load-kind=" + o.Kind, "--load-name=" + o.Name, "--load-uid=" + o.UID,
		"--load-attempt=" + strconv.Itoa(o.Attempt), "--load-pod=" + o.Pod, "--load-volume=" + o.Volume,
		"--load-parent=" + o.Parent, "--load-again=" + strconv.FormatBool(o.Again),
	}
}

// ID identifies the attempt. It is different for each attempt of each load.
func (o *Order) ID() string { return o.UID + "-" + strconv.Itoa(o.Attempt) }

// nameOf returns the name of the pod of an attempt.
func nameOf(load types.UID, attempt int) string { return fmt.Sprintf("move-%s-%d", load, attempt) }
