//go:build !linux

package owners

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Open opens the file that path leads to, for reading, and returns the way to it, with its modes and without owners.
func Open(path string) (*os.File, Way, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	way, err := wayTo(path, file)
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, way, nil
}

func wayTo(path string, file *os.File) (Way, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	way := Way{{Path: real, Mode: info.Mode(), Owner: ownerOf(info)}}
	for dir, below := filepath.Dir(real), real; dir != below; dir, below = filepath.Dir(dir), dir {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		way = append(way, Step{Path: dir, Mode: info.Mode(), Owner: ownerOf(info), Holds: below == real})
	}
	slices.Reverse(way)
	return way, nil
}

func ownerOf(fs.FileInfo) int { return Unknown }
