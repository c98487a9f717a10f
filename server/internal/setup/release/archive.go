package release

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Checksums is the file with the sums of the others.
const Checksums = "checksums.txt"

// WriteArchives writes an archive and an SBOM for each product into a directory, and checksums.txt. Documents of the
// source tree at root are in each archive.
func WriteArchives(root, dir string, builds []Built) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	for _, b := range builds {
		name := fmt.Sprintf("%s-%s-%s-%s", b.Name, b.Version, b.Platform.OS, b.Platform.Architecture)
		sbom, err := b.SBOM()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".cdx.json"), sbom, 0o644); err != nil {
			return err
		}
		if err := b.writeArchive(filepath.Join(dir, name+".tar.gz"), root); err != nil {
			return fmt.Errorf("write the archive of %s for %s: %w", b.Name, b.Platform, err)
		}
		for _, file := range []string{name + ".cdx.json", name + ".tar.gz"} {
			content, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), file)
		}
	}
	return os.WriteFile(filepath.Join(dir, Checksums), []byte(sums.String()), 0o644)
}

func (b Built) writeArchive(path, root string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	for _, name := range []string{"LICENSE", "README.md"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = addFile(archive, name, 0o644, content)
		}
		if err != nil {
			return err
		}
	}
	files := contents{}
	headers, err := b.programFiles(files, nil, "", b.Programs)
	if err != nil {
		return err
	}
	for _, header := range headers {
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if err := addFile(archive, header.Name, header.Mode, files[header.Name]); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func addFile(archive *tar.Writer, name string, mode int64, content []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)),
		ModTime: epoch()}); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
