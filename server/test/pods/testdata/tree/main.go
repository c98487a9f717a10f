// Command tree is the program of test pods. It writes files of all kinds into a directory, changes some, and prints
// the contents:
//
//	tree run                  waits until it is ended
//	tree note FILE NOTE       writes into NOTE whether there is a FILE, "there" or "missing", and waits until it is ended
//	tree write DIR            writes the files; more than 100 of them
//	tree change DIR           changes one file, adds one, removes one
//	tree wait NAME DIR...     waits until there is a file NAME in DIR/.velero of each, as the init container of a restored pod does
//	tree fill FILE            writes to all of a block device
//	tree sum FILE             prints the SHA-256 of the content of a file or a device
//	tree list DIR             prints a line of JSON per file, with everything that a backup has to preserve
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tree:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "run":
		await()
		return nil
	case len(args) == 3 && args[0] == "note":
		found := "there"
		if _, err := os.Stat(args[1]); err != nil {
			found = "missing"
		}
		if err := os.WriteFile(args[2], []byte(found), 0o644); err != nil {
			return err
		}
		await()
		return nil
	case len(args) == 2 && args[0] == "write":
		return write(args[1])
	case len(args) == 2 && args[0] == "change":
		return change(args[1])
	case len(args) > 2 && args[0] == "wait":
		for _, dir := range args[2:] {
			_, err := os.Stat(filepath.Join(dir, ".velero", args[1]))
			for ; errors.Is(err, fs.ErrNotExist); _, err = os.Stat(filepath.Join(dir, ".velero", args[1])) {
				time.Sleep(50 * time.Millisecond)
			}
			if err != nil {
				return err
			}
		}
		return nil
	case len(args) == 2 && args[0] == "fill":
		return fill(args[1])
	case len(args) == 2 && args[0] == "sum":
		sum, err := sumOf(args[1])
		fmt.Println(sum)
		return err
	case len(args) == 2 && args[0] == "list":
		return list(args[1])
	}
	return fmt.Errorf("unknown arguments %q", args)
}

// await waits until the program is ended.
func await() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
}

// past is a time that no file gets by chance.
func past(i int) time.Time { return time.Date(2001, 2, 3, 4, 5, i%60, 123456789, time.UTC) }

func write(dir string) error {
	random := rand.NewChaCha8([32]byte{1})
	content := func(size int) []byte {
		data := make([]byte, size)
		_, _ = random.Read(data) // never fails
		return data
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	var errs []error
	do := func(err error) { errs = append(errs, err) }

	for i := range 100 {
		sub := in(fmt.Sprintf("many/%d", i%10))
		do(os.MkdirAll(sub, 0o755))
		path := filepath.Join(sub, fmt.Sprint(i))
		do(os.WriteFile(path, content(i*37), 0o644))
		do(os.Chtimes(path, past(i), past(i)))
	}
	do(os.WriteFile(in("large"), content(3<<20), 0o600))
	do(os.WriteFile(in("empty"), nil, 0o644))
	do(os.WriteFile(in("not UTF-8 \xff\xfe"), []byte("a name of bytes"), 0o644))
	do(os.WriteFile(in("owned"), []byte("by another user"), 0o644))
	do(os.Chown(in("owned"), 1234, 4321))
	do(os.Chmod(in("owned"), 0o640|fs.ModeSetuid|fs.ModeSetgid))
	do(os.WriteFile(in("without rights"), []byte("no user may read this"), 0o000))
	do(os.Mkdir(in("shared"), 0o700))
	do(os.Chmod(in("shared"), 0o777|fs.ModeSticky))
	do(os.Mkdir(in("empty directory"), 0o711))
	do(os.Symlink("owned", in("link")))
	do(os.Symlink("/nowhere", in("dangling")))
	do(os.Lchown(in("dangling"), 77, 88))
	do(os.Link(in("large"), in("hard link")))
	do(syscall.Mkfifo(in("pipe"), 0o622))
	holes, err := os.Create(in("holes"))
	do(err)
	if err == nil {
		_, err = holes.WriteAt([]byte("the end"), 8<<20)
		do(errors.Join(err, holes.Close()))
	}
	for i, name := range []string{"large", "owned", "shared", "empty directory", "pipe", "many"} {
		do(os.Chtimes(in(name), past(i+7), past(i+7)))
	}
	return errors.Join(errs...)
}

func change(dir string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "many/3/33"), []byte("changed"), 0o644),
		os.WriteFile(filepath.Join(dir, "added"), []byte("added"), 0o644),
		os.Remove(filepath.Join(dir, "empty")),
	)
}

func fill(device string) error {
	file, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, rand.NewChaCha8([32]byte{2}))
	if errors.Is(err, syscall.ENOSPC) { // all of it
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// entry holds the properties of a file that a backup has to preserve.
type entry struct {
	Path, Mode, Target, SHA256 string
	UID, GID                   uint32
	Size                       int64
	Modified                   time.Time
	Same                       string // the first path with the same inode, if there are several
}

func list(dir string) error {
	out := json.NewEncoder(os.Stdout)
	first := map[uint64]string{}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil || relative == "." || relative == ".velero" || strings.HasPrefix(relative, ".velero/") {
			// Only a restore has this directory.
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s has no stat", path)
		}
		e := entry{Path: fmt.Sprintf("%q", relative), Mode: info.Mode().String(), UID: stat.Uid, GID: stat.Gid,
			Modified: info.ModTime().UTC()}
		switch {
		case info.Mode().IsRegular():
			if e.SHA256, err = sumOf(path); err != nil {
				return err
			}
			e.Size = info.Size()
			if stat.Nlink > 1 {
				if first[stat.Ino] == "" {
					first[stat.Ino] = e.Path
				}
				e.Same = first[stat.Ino]
			}
		case info.Mode()&fs.ModeSymlink != 0:
			if e.Target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		return out.Encode(e)
	})
}
