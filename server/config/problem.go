package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Problem is one thing that is wrong in a file.
type Problem struct {
	File    string
	Line    int    // 0 when it is about the file as a whole
	Key     string // path, "backups.manifestWriters[0].plugin"; empty when it is about the file as a whole
	Message string
}

// Error is "file:line: key: what is wrong".
func (p *Problem) Error() string {
	return place{file: p.File, line: p.Line, key: p.Key}.String() + ": " + p.Message
}

// place is where in a file something stands.
type place struct {
	file string
	line int
	key  string
}

// String is "file:line: key".
func (p place) String() string {
	text := p.file
	if p.line > 0 {
		text += fmt.Sprintf(":%d", p.line)
	}
	if p.key != "" {
		text += ": " + p.key
	}
	return text
}

// problems gathers what is wrong.
type problems []*Problem

func (p *problems) add(at place, format string, args ...any) {
	*p = append(*p, &Problem{File: at.file, Line: at.line, Key: at.key, Message: fmt.Sprintf(format, args...)})
}

// err is all of them in the order of the lines; nil when there are none.
func (p problems) err() error {
	slices.SortStableFunc(p, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, 0, len(p))
	for _, problem := range p {
		errs = append(errs, problem)
	}
	return errors.Join(errs...)
}

// texts are all of them as they read, in the order in which they were found.
func (p problems) texts() []string {
	var texts []string
	for _, problem := range p {
		texts = append(texts, problem.Error())
	}
	return texts
}
