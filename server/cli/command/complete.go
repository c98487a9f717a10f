package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// Complete returns the function by which a shell completes the names of objects. Without an answer of the cluster there
// are none.
func (g Getter[V, P, L]) Complete(a *App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		cluster, err := a.Cluster.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := g.List(ctx, cluster, "", nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for i := range *g.Items(list) {
			name := P(&(*g.Items(list))[i]).GetName()
			if strings.HasPrefix(name, begun) && !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
