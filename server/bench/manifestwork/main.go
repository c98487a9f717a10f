// Command manifestwork writes or reads a manifest of many items in a process of its own, for the benchmarks:
//
//	manifestwork write FILE ITEMS
//	manifestwork trees FILE ITEMS       (items that are owned by others, ten deep)
//	manifestwork read FILE
//	manifestwork plan FILE              (the order in which a restore begins the items)
//	manifestwork values FILE > VALUES   (the bare values of all fields)
//
// All but the last one print the time in seconds and the peak of resident memory in KiB.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/framework/manifest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifestwork:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && (args[0] == "write" || args[0] == "trees"):
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		made := item
		if args[0] == "trees" {
			made = part
		}
		return measured(func() error { return write(args[1], count, made) })
	case len(args) == 2 && args[0] == "plan":
		return measured(func() error { return order(args[1]) })
	case len(args) == 2 && args[0] == "read":
		return measured(func() error { return read(args[1], func(*manifest.Item) error { return nil }) })
	case len(args) == 2 && args[0] == "values":
		out := bufio.NewWriter(os.Stdout)
		if err := read(args[1], func(item *manifest.Item) error { return values(out, item) }); err != nil {
			return err
		}
		return out.Flush()
	}
	return errors.New("want: write FILE ITEMS, trees FILE ITEMS, read FILE, plan FILE, or values FILE")
}

func measured(work func() error) error {
	began := time.Now()
	if err := work(); err != nil {
		return err
	}
	took := time.Since(began)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, peak, found := strings.Cut(string(status), "VmHWM:")
	peak, _, _ = strings.Cut(peak, "kB")
	if !found {
		return errors.New("the system does not report the peak of resident memory (VmHWM)")
	}
	_, err = fmt.Println(took.Seconds(), strings.TrimSpace(peak))
	return err
}

func write(path string, count int, item func(int) *manifest.Item) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriter(file)
	w, err := manifest.NewWriter(out, manifest.Header{Backup: manifest.Backup{Name: "million"}}, manifest.Options{})
	if err != nil {
		return err
	}
	defer w.Abort()
	for i := range count {
		if err := w.Add(item(i)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Flush()
}

func read(path string, each func(*manifest.Item) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := manifest.NewReader(file)
	if err != nil {
		return err
	}
	for item, err := range r.Items() {
		if err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
	return nil
}

// values writes the values of the fields of an item, without their names.
func values(out io.Writer, item *manifest.Item) error {
	fields := []any{item.APIGroup, item.APIVersion, item.Resource, item.ItemKind, item.Namespace, item.Name, item.UID,
		item.Included.By}
	for _, all := range []map[string]string{item.Labels, item.Annotations} {
		for _, key := range sortedKeys(all) {
			fields = append(fields, key, all[key])
		}
	}
	for _, owner := range item.OwnerUIDs {
		fields = append(fields, owner)
	}
	for _, e := range item.Edges {
		fields = append(fields, e.Type, e.Strict, e.To.Group, e.To.Resource, e.To.Kind, e.To.Namespace, e.To.Name, e.To.UID,
			e.Path, e.Plugin)
	}
	_, err := fmt.Fprintln(out, fields...)
	return err
}
