package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/pluginreport"
)

func (a *App) pluginCommand() *cobra.Command {
	return parent("plugin", "Work with plugins",
		a.pluginGetCommand(),
		a.pluginInfoCommand(),
		a.pluginOrderCommand(),
		a.pluginLockCommand(),
		a.pluginVerifyCommand(),
		a.pluginInitCommand(),
		a.pluginTestCommand(),
	)
}

// apiVersion is that of the documents that "-o json" and "-o yaml" print about plugins.
const apiVersion = "cleat.dev/v1"

// print writes a value in the form that somebody asked for, which is text unless it is JSON or YAML. forms are the
// words for text, the first of which is the default.
func (a *App) print(form string, forms []string, value any, text func() error) error {
	if err := checkForm(form, forms...); err != nil {
		return err
	}
	switch form {
	case "json":
		return printJSON(a.Out, value)
	case "yaml":
		return printYAML(a.Out, value)
	default:
		return text()
	}
}

// checkForm makes sure that print knows a form, for a command that does something before it prints.
func checkForm(form string, forms ...string) error {
	if form == "json" || form == "yaml" || slices.Contains(forms, form) {
		return nil
	}
	return fmt.Errorf("--output %q: want %s, json or yaml", form, strings.Join(forms, ", "))
}

// addOutput adds the flag for the form.
func addOutput(cmd *cobra.Command, form *string, forms ...string) {
	cmd.Flags().StringVarP(form, "output", "o", forms[0], "form of the output: "+strings.Join(forms, ", ")+", json or yaml")
}

// statusText is a status as people read it.
func statusText(status pluginreport.Status) string {
	switch status {
	case pluginreport.InUse:
		return "in use"
	case pluginreport.NotUsed:
		return "not used"
	case pluginreport.Quarantined:
		return "quarantined"
	default:
		return "<unknown>"
	}
}

// fromText is where a plugin comes from.
func fromText(p *pluginreport.Plugin) string {
	if p.BuiltIn {
		return "built-in"
	}
	return cmp.Or(safe(p.File), "<unknown>")
}

// safe is foreign text without what a terminal would take for a command. Line ends stay.
func safe(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}

// oneLine is foreign text in a cell of a table.
func oneLine(text string) string { return strings.Join(strings.Fields(safe(text)), " ") }

// quarantined writes what is wrong with plugins, if anything is.
func (d *description) quarantined(plugins []pluginreport.Plugin) {
	bad := slices.DeleteFunc(slices.Clone(plugins), func(p pluginreport.Plugin) bool { return p.Status != pluginreport.Quarantined })
	if len(bad) == 0 {
		return
	}
	d.gap()
	d.section("Quarantined", func() {
		for i := range bad {
			d.section(oneLine(subject(&bad[i])), func() { d.lines(bad[i].Reason) })
		}
	})
}

// subject is what is quarantined: a file, or one plugin in it.
func subject(p *pluginreport.Plugin) string {
	if p.Name == "" && p.Kind == "" {
		return fromText(p)
	}
	return fmt.Sprintf("%s %s of %s", wireKind(p), p.Name, fromText(p))
}

// lines writes foreign text.
func (d *description) lines(text string) {
	for line := range strings.Lines(text) {
		d.line("%s", strings.TrimRight(safe(line), "\n"))
	}
}
