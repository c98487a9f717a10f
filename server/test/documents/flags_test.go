package documents_test

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli"
	"github.com/cleat-dev/cleat/server/cli/command"
)

// commands returns the tree of commands.
func commands() *cobra.Command {
	return cli.New(command.Streams{Out: io.Discard, Err: io.Discard}, "dev", nil)
}

// verbCommands are the parents of commands that begin with a verb. These are copies of the commands of the nouns.
var verbCommands = []string{"get", "describe", "create", "delete"}

// TestDocumentsFlags checks that the reference lists each command and each flag, and only those.
func TestDocumentsFlags(t *testing.T) {
	t.Parallel()
	tree := commands()
	page := &strings.Builder{}
	page.WriteString("# Commands and flags\n\n" +
		"A server reads some of the settings from its [config file](config.md) as well. Commands may begin with " +
		"the verb:\n`cleat get backups` is `cleat backup get`.\n\n## Flags of all commands\n")
	fmt.Fprint(page, flagTable(tree.PersistentFlags()))
	server, _, err := tree.Find([]string{"server"})
	require.NoError(t, err)
	for _, child := range tree.Commands() {
		if !child.Hidden && !slices.Contains(verbCommands, child.Name()) {
			writeCommand(page, child, server)
		}
	}
	checkReference(t, "flags.md", page.String())
}

// writeCommand writes the section of a command and of its subcommands.
func writeCommand(page *strings.Builder, c, server *cobra.Command) {
	if c.Hidden {
		return
	}
	if flags := ownFlags(c, server); c.HasParent() && !c.HasSubCommands() || flags.HasAvailableFlags() {
		fmt.Fprintf(page, "\n## %s\n%s.\n\n    %s\n", c.CommandPath(), escape(c.Short), c.UseLine())
		if c != server && sharesFlags(c, server) {
			page.WriteString("\nAll flags of [cleat server](#cleat-server) are flags of this command too, and become flags " +
				"of the server in the cluster.\n")
		}
		if flags.HasAvailableFlags() {
			page.WriteString("\n" + flagTable(flags))
		}
	}
	for _, child := range c.Commands() {
		writeCommand(page, child, server)
	}
}

func sharesFlags(c, server *cobra.Command) bool {
	const one = "concurrent-backups"
	return c.Name() == "install" && c.Flags().Lookup(one) != nil && server.Flags().Lookup(one) != nil
}

// ownFlags returns the flags of a command without the flags of its parents, and without those of the server.
func ownFlags(c, server *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c != server && sharesFlags(c, server) {
			if of := server.Flags().Lookup(f.Name); of != nil && of.Usage == f.Usage {
				return
			}
		}
		own.AddFlag(f)
	})
	return own
}

func flagTable(flags *pflag.FlagSet) string {
	table := &strings.Builder{}
	table.WriteString(tableHead("flag", "value", "default", "meaning"))
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := code("--" + f.Name)
		if f.Shorthand != "" {
			name = code("-"+f.Shorthand) + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		byDefault := f.DefValue
		switch {
		case f.Value.Type() == "bool":
			value = "boolean"
		case byDefault == "[]":
			byDefault = ""
		}
		table.WriteString(tableRow(name, value, code(byDefault), escape(usage)))
	})
	return table.String()
}

// escape returns text without characters that Markdown would interpret.
func escape(text string) string {
	return strings.NewReplacer("*", `\*`, "<", "&lt;", "_", `\_`).Replace(text)
}

// flagOfText matches a flag in the text of a page.
var flagOfText = regexp.MustCompile("(?:^|[\\s`(\"'|=\\[])--([a-z][a-z0-9-]*)")

// othersFlags are flags of other programs that pages mention.
var othersFlags = []string{"from-literal", "ignore-missing", "insecure-ignore-tlog"}

// isAboutTheServer reports whether each flag in a page is one of the program cleat. Other pages may name
// flags of other programs.
func isAboutTheServer(path string) bool {
	return !strings.Contains(path, "/") || strings.HasPrefix(path, "server/docs/")
}

// TestDocumentsCommands checks that the commands and flags that pages name exist.
func TestDocumentsCommands(t *testing.T) {
	t.Parallel()
	tree := commands()
	tree.InitDefaultCompletionCmd()
	all := map[string]bool{"help": true}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { all[f.Name] = true })
		}
		for _, child := range c.Commands() {
			collect(child)
		}
	}
	collect(tree)
	var problems []string
	found := 0
	for path, text := range pages(t) {
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
			for _, match := range flagOfText.FindAllStringSubmatch(line, -1) {
				if isAboutTheServer(path) && !all[match[1]] && !slices.Contains(othersFlags, match[1]) {
					problems = append(problems, fmt.Sprintf("%s: no command has the flag --%s", path, match[1]))
				}
			}
			for _, words := range cleatCommands(line) {
				found++
				if problem := checkCommand(tree, words); problem != "" {
					problems = append(problems, fmt.Sprintf("%s: %s: %s", path, strings.Join(words, " "), problem))
				}
			}
		}
	}
	require.Greater(t, found, 150)
	report(t, problems)
}

// inlineCode matches inline code that is a command.
var inlineCode = regexp.MustCompile("`((?:bin/)?cleat [^`]+)`")

// cleatCommands returns the commands in a line of a page: of code blocks, and inline.
func cleatCommands(line string) (found [][]string) {
	add := func(text string) {
		text, _, _ = strings.Cut(text, " #")
		words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
		isOperator := func(w string) bool { return slices.Contains([]string{"|", ">", "&", "2>&1", ";", "&&", "||"}, w) }
		if end := slices.IndexFunc(words, isOperator); end >= 0 {
			words = words[:end]
		}
		for i, word := range words {
			if before, ok := strings.CutSuffix(word, ";"); ok {
				words = append(words[:i:i], before)
				break
			}
		}
		found = append(found, words)
	}
	trimmed := strings.TrimPrefix(strings.TrimLeft(line, " "), "until ")
	if strings.HasPrefix(trimmed, "cleat ") && !strings.HasPrefix(line, "cleat is ") && !strings.Contains(line, "`") {
		if strings.HasPrefix(line, "    ") || isCommandLine(trimmed) {
			add(trimmed)
		}
	}
	for _, match := range inlineCode.FindAllStringSubmatch(line, -1) {
		add(strings.TrimPrefix(match[1], "bin/"))
	}
	return found
}

// isCommandLine reports whether a line that begins with the name of the program is a command, and not the beginning
// of a sentence.
func isCommandLine(line string) bool {
	words := strings.Fields(line)
	c, _, err := commands().Find(words[1:2])
	return err == nil && c.HasParent() && !strings.HasSuffix(line, ".\n")
}

// checkCommand returns what is wrong with a command, empty for nothing.
func checkCommand(tree *cobra.Command, words []string) string {
	for i, word := range words {
		words[i], _, _ = strings.Cut(word, "|") // the first of several
	}
	c, rest, err := tree.Find(words[1:])
	switch {
	case err != nil:
		return err.Error()
	case c == tree:
		return "there is no such command"
	case c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !c.Runnable():
		return fmt.Sprintf("%s has no command %s", c.CommandPath(), rest[0])
	}
	c.InheritedFlags() // adds those of the parents
	for _, word := range rest {
		if word == "--" {
			break
		}
		name, isLong := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		name = strings.TrimRight(name, ",.)")
		if isLong && name != "help" && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return fmt.Sprintf("%s has no flag --%s", c.CommandPath(), name)
		}
		short, isShort := strings.CutPrefix(word, "-")
		if !isShort || len(short) != 1 || short == "h" || short == "-" {
			continue
		}
		if c.Flags().ShorthandLookup(short) == nil && c.InheritedFlags().ShorthandLookup(short) == nil {
			return fmt.Sprintf("%s has no flag -%s", c.CommandPath(), short)
		}
	}
	return ""
}
