package restic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/internal/warnings"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

// losses finds what restic does not store: sockets, and before 0.16 links whose targets are not UTF-8.
func (b *backup) losses(ctx context.Context) {
	links := !b.program.AtLeast(0, 16)
	var sockets names
	_ = filepath.WalkDir(b.volume.Path, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil { // restic reports what cannot be read
			return nil //nolint:nilerr // likewise
		}
		if entry.Type() == fs.ModeSocket {
			sockets.add(relative(b.volume.Path, path))
		}
		if entry.Type() != fs.ModeSymlink || !links {
			return nil
		}
		if target, err := os.Readlink(path); err == nil && !utf8.ValidString(target) {
			b.Warn("restic %s cannot store the target of the symbolic link %q, which is not UTF-8: it will lead to %q; 0.16 "+
				"or newer can",
				b.program.Version(), relative(b.volume.Path, path), target)
		}
		return nil
	})
	sockets.warn(b.List, "sockets, which restic does not restore")
}

// names counts files, and has the names of the first ones.
type names struct {
	count int
	first []string
}

func (n *names) add(name string) {
	const named, long = 10, 72
	if n.count++; len(n.first) < named {
		if len(name) > long {
			name = "..." + name[len(name)-long+3:] // the end is what tells paths apart
		}
		n.first = append(n.first, fmt.Sprintf("%q", name))
	}
}

// warn adds a warning about the files, if there are some.
func (n *names) warn(to *warnings.List, what string) {
	if n.count == 0 {
		return
	}
	more := ""
	if n.count > len(n.first) {
		more = fmt.Sprintf(" and %d more", n.count-len(n.first))
	}
	to.Warn("%d %s: %s%s", n.count, what, strings.Join(n.first, ", "), more)
}

// checkLinks finds symbolic links in a volume that lead out of it, at the path of a file or directory of the snapshot,
// before restic meets them, to explain what to do. It is no protection from a pod that makes such links meanwhile: a
// node agent mounts the volume so that no link in it is followed.
func (s *session) checkLinks(ctx context.Context, id, volume string) error {
	root, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	leaving := map[string]string{}
	err = filepath.WalkDir(volume, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() != fs.ModeSymlink {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		to, err := filepath.EvalSymlinks(path)
		if err != nil || !filepath.IsLocal(relative(root, to)) {
			leaving["/"+relative(volume, path)] = target
		}
		return nil
	})
	if err != nil || len(leaving) == 0 {
		return err
	}
	var found string
	err = s.run(ctx, program.Command{Args: []string{"ls", "--json", id}, Line: func(line []byte) {
		var node struct{ Type, Path string }
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &node) != nil {
			return
		}
		if _, is := leaving[node.Path]; is && node.Type != "symlink" {
			found = node.Path
		}
	}})
	if err == nil && found != "" {
		err = framework.Invalid("the volume has a symbolic link %q to %q, where the snapshot has a file or directory; "+
			"remove the link, because restic could follow it out of the volume", found, leaving[found])
	}
	return err
}
