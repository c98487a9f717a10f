package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	frameworkmanifest "github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// mostOutcomes is what the temporary files of one dry run may have, in bytes: enough for a million items.
const mostOutcomes = 512 << 20

// outcomes is the result of a dry run of a restore. Its items are in temporary files, one for each verdict, so that any
// page of them is read at once.
type outcomes struct {
	content  outcome.Content
	messages results.Results
	counts   runs.Outcomes
	lists    map[outcome.Verdict]*outcomeList
	size     int64 // of all files, in bytes
}

// outcomeList has the items of a verdict, one on a line.
type outcomeList struct {
	file    *spool.File
	items   int
	begins  []int64 // where each page begins
	size    int64   // of the file, with what is pending
	pending bytes.Buffer
}

// fetchOutcomes fetches the result of a dry run.
func fetchOutcomes(ctx context.Context, cluster *command.Cluster, name, backup string) (*outcomes, error) {
	var r velerov1.Restore
	if err := cluster.Get(ctx, cluster.Key(name), &r); err != nil {
		return nil, err
	}
	location, err := cluster.LocationOf(ctx, backup)
	if err != nil {
		return nil, err
	}
	o, downloads := &outcomes{lists: map[outcome.Verdict]*outcomeList{}}, runs.NewDownloads(answerWithin)
	o.messages, err = downloads.Results(ctx, cluster, velerov1.DownloadTargetKindRestoreResults, name, location)
	if err == nil {
		o.content, err = downloads.Items(ctx, cluster, &r, location, o.add)
	}
	for _, list := range o.lists {
		err = errors.Join(err, list.flush())
	}
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// add adds an item.
func (o *outcomes) add(item outcome.Item) error {
	if !o.counts.Add(&item) {
		return nil
	}
	list := o.lists[item.Outcome]
	if list == nil {
		file, err := spool.New("", "the result of a dry run")
		if err != nil {
			return err
		}
		list = &outcomeList{file: file}
		o.lists[item.Outcome] = list
	}
	before := list.size
	if err := list.add(&item); err != nil {
		return err
	}
	if o.size += list.size - before; o.size > mostOutcomes {
		return fmt.Errorf("the result needs more than %d MiB: see it with the command", mostOutcomes>>20)
	}
	return nil
}

func (l *outcomeList) add(item *outcome.Item) error {
	line, err := json.Marshal(item)
	if err != nil {
		return err
	}
	if l.items%perPage == 0 {
		l.begins = append(l.begins, l.size)
	}
	l.items++
	l.size += int64(len(line)) + 1
	l.pending.Write(line)
	l.pending.WriteByte('\n')
	if l.pending.Len() < 64<<10 {
		return nil
	}
	return l.flush()
}

func (l *outcomeList) flush() error {
	_, err := l.pending.WriteTo(l.file)
	return err
}

// Close implements io.Closer.
func (o *outcomes) Close() error {
	var errs []error
	for _, list := range o.lists {
		errs = append(errs, list.file.Close())
	}
	return errors.Join(errs...)
}

// first returns the first verdict with items, of which those come first that need attention.
func (o *outcomes) first() outcome.Verdict {
	for _, verdict := range []outcome.Verdict{outcome.Failed, outcome.Refused, outcome.Conflict, outcome.Updated,
		outcome.Created, outcome.Skipped} {
		if o.lists[verdict] != nil {
			return verdict
		}
	}
	return outcome.Created
}

// pages returns the number of pages of a verdict.
func (o *outcomes) pages(verdict outcome.Verdict) int {
	if list := o.lists[verdict]; list != nil {
		return len(list.begins)
	}
	return 0
}

// page returns the items of a page, from 1.
func (o *outcomes) page(verdict outcome.Verdict, page int) ([]outcome.Item, error) {
	list := o.lists[verdict]
	if list == nil {
		return nil, nil
	}
	begin, end := list.begins[page-1], list.size
	if page < len(list.begins) {
		end = list.begins[page]
	}
	text := make([]byte, end-begin)
	if _, err := list.file.ReadAt(text, begin); err != nil {
		return nil, fmt.Errorf("read the result of the dry run: %w", err)
	}
	var items []outcome.Item
	for line := range bytes.Lines(text) {
		var item outcome.Item
		if err := json.Unmarshal(line, &item); err != nil {
			return nil, fmt.Errorf("read the result of the dry run: %w", err)
		}
		items = append(items, item)
	}
	return items, nil
}

// outcomeTable returns the table of a page of items.
func outcomeTable(backup string, verdict outcome.Verdict, items []outcome.Item) grid {
	table := grid{Caption: "Items that would be " + inWords(verdict), Empty: "No item would be " + inWords(verdict) + ".",
		Head: []string{"ITEM", "REASON", "WAVE", "WAITS FOR"}}
	for i := range items {
		item := &items[i]
		name := outcome.Ref{Resource: item.Resource, Namespace: item.Namespace, Name: item.Name}.String()
		if item.From != "" {
			name += ", from " + item.From
		}
		reason := item.Reason
		if item.Incomplete {
			reason = "not as requested: " + reason
		}
		wave := ""
		if item.Wave > 0 {
			wave = strconv.Itoa(item.Wave)
		}
		source := item.Source()
		gr := schema.ParseGroupResource(source.Resource)
		table.Rows = append(table.Rows, []gridCell{
			{Text: layout.OneLine(name), Heads: true, Href: itemLink(backup, frameworkmanifest.Ref{Group: gr.Group,
				Resource: gr.Resource, Namespace: source.Namespace, Name: source.Name})},
			{Text: layout.OneLine(reason)}, {Text: wave}, {Text: layout.OneLine(runs.NeedsOf(item))}})
	}
	return table
}

// inWords returns a verdict at the end of "it would be".
func inWords(verdict outcome.Verdict) string {
	if verdict == outcome.Conflict {
		return "in conflict"
	}
	return string(verdict)
}
