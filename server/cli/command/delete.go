package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deletion is what differs between the commands that delete objects.
type Deletion[V any] struct {
	// Short is the help of the command; empty for a sentence with the kind.
	Short string
	// After, unless nil, is called when an object was deleted.
	After func(ctx context.Context, cluster *Cluster, object *V) error
}

// NewDeleteCommand returns the command that deletes the objects of a Getter. kind is their kind at the beginning of a
// sentence, kinds is the plural.
func NewDeleteCommand[V any, P interface {
	*V
	client.Object
}, L client.ObjectList](a *App, kind, kinds string, g Getter[V, P, L], d Deletion[V]) *cobra.Command {
	var which Selection
	var confirm bool
	cmd := &cobra.Command{
		Use:   "delete [NAME...]",
		Short: d.Short,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			objects, err := g.Select(cmd.Context(), cluster, kinds, which, args)
			if err != nil {
				return err
			}
			if len(objects) == 0 {
				fmt.Fprintf(a.Out, "No %s found.\n", kinds)
				return nil
			}
			if !confirm {
				if err := a.Confirm(fmt.Sprintf("Delete %s?", g.Names(objects))); err != nil {
					return err
				}
			}
			var errs []error
			for i := range objects {
				object := P(&objects[i])
				if err := cluster.Delete(cmd.Context(), object); err != nil {
					errs = append(errs, fmt.Errorf("delete %s: %w", object.GetName(), err))
					continue
				}
				fmt.Fprintf(a.Out, "%s deleted: %s\n", kind, object.GetName())
				if d.After != nil {
					errs = append(errs, d.After(cmd.Context(), cluster, &objects[i]))
				}
			}
			return errors.Join(errs...)
		},
	}
	if cmd.Short == "" {
		cmd.Short = "Delete " + kinds
	}
	cmd.ValidArgsFunction = g.Complete(a)
	which.Add(cmd.Flags(), "delete", kinds)
	cmd.Flags().BoolVar(&confirm, "confirm", false, "do not ask")
	return cmd
}
