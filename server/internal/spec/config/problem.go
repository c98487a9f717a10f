package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Problem is one mistake in a file.
type Problem struct {
	File    string
	Line    int    // 0 when it is about the file as a whole
	Key     string // path, "backups.manifestWriters[0].plugin"; empty when it is about the file as a whole
	Message string
}

// Error returns "file:line: key: message".
func (p *Problem) Error() string {
	return position{file: p.File, line: p.Line, key: p.Key}.String() + ": " + p.Message
}

// position is the position of a key or value in a file.
type position struct {
	file string
	line int
	key  string
}

// String returns "file:line: key".
func (p position) String() string {
	text := p.file
	if p.line > 0 {
		text += fmt.Sprintf(":%d", p.line)
	}
	if p.key != "" {
		text += ": " + p.key
	}
	return text
}

// problems collects everything that is wrong.
type problems []*Problem

func (p *problems) add(at position, format string, args ...any) {
	*p = append(*p, &Problem{File: at.file, Line: at.line, Key: at.key, Message: fmt.Sprintf(format, args...)})
}

// err returns all problems, sorted by line, or nil if there are none.
func (p problems) err() error {
	slices.SortStableFunc(p, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, 0, len(p))
	for _, problem := range p {
		errs = append(errs, problem)
	}
	return errors.Join(errs...)
}

// texts returns the messages of all problems, in the order in which they were found.
func (p problems) texts() []string {
	var texts []string
	for _, problem := range p {
		texts = append(texts, problem.Error())
	}
	return texts
}
