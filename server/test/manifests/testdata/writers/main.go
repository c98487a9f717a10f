// Command writers is a plugin with manifest writers, most of which break a rule.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework"
	manifestwriter "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
)

func main() {
	var all []framework.Registration
	for name, write := range map[string]write{
		"names":     names("names.txt"),
		"fails":     fails,
		"hangs":     hangs,
		"endless":   endless,
		"nothing":   nothing,
		"late":      late,
		"returns":   returns,
		"traversal": names("../x"),
		"metadata":  names("velero-backup.json"),
		"archive":   names("x.tar.gz"),
		"results":   names("results.gz"),
		"twin":      names("items.jsonl"), // as cleat.dev/item-list
	} {
		all = append(all, manifestwriter.Register("example.io/"+name,
			func(context.Context, *framework.Setup) (manifestwriter.ManifestWriter, error) {
				return write, nil
			}))
	}
	framework.Serve(all...)
}

// write is a manifest writer.
type write func(input *manifestwriter.WriteInput) error

// Write implements manifestwriter.ManifestWriter.
func (w write) Write(_ context.Context, input *manifestwriter.WriteInput) error { return w(input) }

// names returns a writer that writes the names of all items to a file.
func names(artifact string) write {
	return func(input *manifestwriter.WriteInput) error {
		file, err := input.Artifacts.Create(artifact)
		if err != nil {
			return err
		}
		for item, err := range input.Items {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(file, "%s %s\n", item.Resource, item.Name); err != nil {
				return err
			}
		}
		return nil
	}
}

// fails fails after it has written its file.
func fails(input *manifestwriter.WriteInput) error {
	if err := names("fails.txt")(input); err != nil {
		return err
	}
	return errors.New("the inventory is closed")
}

// hangs reads only the first item.
func hangs(input *manifestwriter.WriteInput) error {
	for range input.Items {
		time.Sleep(time.Hour)
	}
	return nil
}

// endless writes without end.
func endless(input *manifestwriter.WriteInput) error {
	file, err := input.Artifacts.Create("endless")
	for piece := make([]byte, 1<<20); err == nil; {
		_, err = file.Write(piece)
	}
	return err
}

// nothing writes no file.
func nothing(input *manifestwriter.WriteInput) error {
	for _, err := range input.Items {
		if err != nil {
			return err
		}
	}
	return nil
}

// late continues to write after its end.
func late(input *manifestwriter.WriteInput) error {
	file, err := input.Artifacts.Create("late.txt")
	if err != nil {
		return err
	}
	if err := nothing(input); err != nil {
		return err
	}
	go func() {
		for err := error(nil); err == nil; {
			_, err = file.Write(make([]byte, 1<<16))
		}
	}()
	return nil
}

// returns ends before it has read the items.
func returns(*manifestwriter.WriteInput) error { return nil }
