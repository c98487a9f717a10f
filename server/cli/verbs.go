package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// verbs are the commands that begin with a verb, as in "cleat get backups", with the name in the plural of each noun.
func verbs(nouns func() []*cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, verb := range []struct{ name, short string }{
		{"get", "List objects of the server"},
		{"describe", "Describe objects of the server"},
		{"create", "Create objects for the server"},
		{"delete", "Delete objects of the server"},
	} {
		parent := &cobra.Command{Use: verb.name, Short: verb.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
		for _, noun := range nouns() {
			child, _, err := noun.Find([]string{verb.name})
			if err != nil || child.Name() != verb.name {
				continue
			}
			noun.RemoveCommand(child)
			_, arguments, _ := strings.Cut(child.Use, " ")
			child.Use, child.Aliases = strings.TrimSpace(noun.Name()+" "+arguments), []string{noun.Name() + "s"}
			child.Example = ""
			parent.AddCommand(child)
		}
		all = append(all, parent)
	}
	return all
}
