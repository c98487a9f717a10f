package console

import (
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// frameFunctions are the functions of all templates.
var frameFunctions = template.FuncMap{
	"asset": func(string) string { return "" }, // New replaces it
	"table": newTable,
	"time":  func(t *metav1.Time) string { return layout.TimeOr(t, "never") },
	"ago":   ago,
	"count": layout.Count,
	"mood":  moodOf,
	"path":  url.PathEscape,
	"lower": strings.ToLower,
}

func ago(t *metav1.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	return layout.Ago(*t, now)
}

// table is a table of a page.
type table struct {
	Caption, Empty string
	Head           []string
	Rows           [][]cell
}

type cell struct {
	Text, Href string
	Mood       string // the class of a phase
	Heads      bool   // it names its row
}

// newTable returns the table that a command prints, for a page. Names link to the pages below links, unless it is "".
func newTable(caption, empty, links string, t layout.Table) table {
	out := table{Caption: caption, Empty: empty, Head: t.Head}
	name := max(0, slices.Index(t.Head, "NAME"))
	for _, row := range t.Rows {
		cells := make([]cell, len(row))
		for i, text := range row {
			cells[i].Text = layout.OneLine(text)
			switch {
			case i == name:
				cells[i].Heads = true
				if links != "" {
					cells[i].Href = links + url.PathEscape(text)
				}
			case i < len(t.Head) && (t.Head[i] == "STATUS" || t.Head[i] == "PHASE"):
				cells[i].Mood = moodOf(text)
			}
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// moodOf returns the class of a phase: whether it is good, bad, or at work.
func moodOf(phase string) string {
	switch phase {
	case "Completed", "Available", "Enabled", "DryRunCompleted", "in use", "available":
		return "good"
	case "Failed", "PartiallyFailed", "FailedValidation", "Unavailable", "quarantined", "DryRunFailed", "Canceled":
		return "bad"
	default:
		return "busy"
	}
}
