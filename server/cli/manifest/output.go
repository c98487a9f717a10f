package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// rowsAtOnce is how many rows of a table are aligned with each other. A manifest may have more than fit into memory.
const rowsAtOnce = 1000

// table writes rows as they come.
type table struct {
	out  *tabwriter.Writer
	rows int
}

func newTable(w io.Writer, head ...string) (*table, error) {
	t := &table{out: tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)}
	return t, t.row(head...)
}

// row writes one row. Its cells may be foreign text.
func (t *table) row(cells ...string) error {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = layout.OneLine(cell)
	}
	if _, err := fmt.Fprintln(t.out, strings.TrimRight(strings.Join(safe, "\t"), "\t")); err != nil {
		return err
	}
	if t.rows++; t.rows%rowsAtOnce == 0 {
		return t.out.Flush()
	}
	return nil
}

func (t *table) end() error { return t.out.Flush() }

// printList writes values as one JSON array, or as one YAML list, as they come. There may be more than fit into memory.
func printList[T any](w io.Writer, form string, values iter.Seq2[T, error]) error {
	begin, between, end, bytesOf := "[\n  ", ",\n  ", "\n]\n", jsonOf
	if form == "yaml" {
		begin, between, end, bytesOf = "- ", "\n- ", "\n", yamlOf
	}
	lead := begin
	for value, err := range values {
		if err != nil {
			return err
		}
		text, err := bytesOf(value)
		if err != nil {
			return err
		}
		lines := strings.ReplaceAll(strings.TrimRight(string(text), "\n"), "\n", "\n  ")
		if _, err := io.WriteString(w, lead+lines); err != nil {
			return err
		}
		lead = between
	}
	if lead == begin {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// printOne writes one value as JSON or YAML.
func printOne(w io.Writer, form string, value any) error {
	bytesOf := jsonOf
	if form == "yaml" {
		bytesOf = yamlOf
	}
	text, err := bytesOf(value)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// jsonOf returns indented JSON in which characters that could control a terminal are escaped.
func jsonOf(value any) ([]byte, error) {
	return encode(value, func(r rune) string {
		if r <= 0xffff {
			return fmt.Sprintf(`\u%04x`, r)
		}
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// encode returns indented JSON in which escape encodes the characters that could control a terminal.
func encode(value any, escape func(rune) string) ([]byte, error) {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	out := make([]byte, 0, plain.Len())
	for text := plain.Bytes(); len(text) > 0; {
		r, size := utf8.DecodeRune(text)
		if r == '\n' || unicode.IsPrint(r) {
			out = append(out, text[:size]...)
		} else {
			out = append(out, escape(r)...)
		}
		text = text[size:]
	}
	return out, nil
}

// yamlOf returns YAML. A value with characters that YAML does not allow, or that could control a terminal, is written
// as YAML that looks like JSON.
func yamlOf(value any) ([]byte, error) {
	text, err := yaml.Marshal(value)
	if err != nil || bytes.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		return encode(value, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
	}
	return text, nil
}

// onTerminal reports whether w is a terminal that shows colours.
func onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""
}
