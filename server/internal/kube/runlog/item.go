package runlog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
)

// Item is an object that a run has dealt with.
type Item struct {
	Resource, Namespace, Name string
	Done, Total               int // items so far, and items known so far
}

// BackedUp logs an item of a backup, with Velero's message.
func BackedUp(log hclog.Logger, item Item) {
	write(log, item, "Backed up ", " items out of an estimated total of ", " (estimate will change throughout the backup)")
}

// Restored logs an item of a restore, with Velero's message.
func Restored(log hclog.Logger, item Item) {
	write(log, item, "Restored ", " items out of an estimated total of ", " (estimate will change throughout the restore)")
}

// write logs one line. A run has one for each of its items, so a logger of this package writes it without an
// allocation. The log of the server gets one of them in a second: all would hide its other lines, and one shows whoever
// follows the run how far it is.
func write(log hclog.Logger, item Item, before, between, after string) {
	l, ok := log.(*logger)
	var to *Log
	if ok {
		to, ok = l.to.(*Log)
	}
	if !ok {
		log.Info(fmt.Sprintf("%s%d%s%d%s", before, item.Done, between, item.Total, after),
			"resource", item.Resource, "namespace", item.Namespace, "name", item.Name)
		return
	}
	if !l.enabled(hclog.Info) {
		return
	}
	if message, first := to.writeItem(item, before, between, after); first {
		logNamed(to.tee, "", hclog.Info, message, append(to.fields[:len(to.fields):len(to.fields)],
			"resource", item.Resource, "namespace", item.Namespace, "name", item.Name))
	}
}

// writeItem writes a line to the log of the run. If it is the first one of a second, it returns the message.
func (l *Log) writeItem(item Item, before, between, after string) (message string, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished || l.err != nil {
		return "", false
	}
	l.message = append(l.message[:0], before...)
	l.message = strconv.AppendInt(l.message, int64(item.Done), 10)
	l.message = append(l.message, between...)
	l.message = strconv.AppendInt(l.message, int64(item.Total), 10)
	l.message = append(l.message, after...)
	now := l.now().UTC().Truncate(time.Second)
	if first = !now.Equal(l.second); first {
		l.second, l.stamp = now, now.AppendFormat(l.stamp[:0], time.RFC3339)
		message = string(l.message)
	}
	if l.json {
		l.appendJSON(item)
	} else {
		l.appendText(item)
	}
	_, l.err = l.gz.Write(l.line)
	return message, first
}

// appendText makes a line in the format of formatText.
func (l *Log) appendText(item Item) {
	l.line = append(append(append(l.line[:0], `time="`...), l.stamp...), `" level=info msg="`...)
	l.line = append(append(append(l.line, l.message...), '"'), l.own...)
	for _, field := range [...]struct{ key, value string }{{" name=", item.Name}, {" namespace=", item.Namespace},
		{" resource=", item.Resource}} {
		if field.value != "" {
			l.line = append(l.line, field.key...)
			l.line = appendQuoted(l.line, field.value)
		}
	}
	l.line = append(l.line, '\n')
}

// appendJSON makes a line in the format of formatJSON.
func (l *Log) appendJSON(item Item) {
	l.line = append(append(append(l.line[:0], `{"time":"`...), l.stamp...), `","level":"info","msg":"`...)
	l.line = append(append(append(l.line, l.message...), '"'), l.own...)
	for _, field := range [...]struct{ key, value string }{{`,"name":`, item.Name}, {`,"namespace":`, item.Namespace},
		{`,"resource":`, item.Resource}} {
		if field.value == "" {
			continue
		}
		quoted, err := jsontext.AppendQuote(append(l.line, field.key...), field.value)
		if err == nil { // it is valid UTF-8
			l.line = quoted
		}
	}
	l.line = append(l.line, "}\n"...)
}
