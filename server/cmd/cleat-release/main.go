// Command cleat-release builds images and archives of the server and of plugins from the source tree, reproducibly and
// without a container runtime.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cleat-dev/cleat/server/internal/setup/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cleat-release: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	root := flag.String("root", ".", "source tree")
	version := flag.String("version", "dev", "version of the release, such as v1.2.3")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64", "platforms, as OS/ARCHITECTURE,...")
	names := flag.String("products", "", "products to build, as NAME,...; all by default")
	image := flag.String("image", "", "write an OCI layout for each product, with the images, into a directory of its "+
		"name in this directory, where it must not exist")
	archives := flag.String("archives", "", "write archives, SBOMs and checksums into this directory")
	flag.Parse()
	if *image == "" && *archives == "" {
		return errors.New("say what to write: -image DIR or -archives DIR")
	}
	products, err := release.Select(strings.FieldsFunc(*names, func(r rune) bool { return r == ',' || r == ' ' }))
	if err != nil {
		return fmt.Errorf("-products: %w", err)
	}
	if *image == "" {
		products = slices.DeleteFunc(products, func(p release.Product) bool { return p.Example })
	}
	dir, err := os.MkdirTemp("", "cleat-release-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var archived []release.Built
	for _, product := range products {
		var builds []release.Built
		for text := range strings.SplitSeq(*platforms, ",") {
			platform, err := v1.ParsePlatform(text)
			if err != nil {
				return fmt.Errorf("-platforms %q: %w", text, err)
			}
			built, err := product.Build(ctx, *root, dir, *version, *platform)
			if err != nil {
				return err
			}
			builds = append(builds, built)
		}
		if *image != "" {
			at := filepath.Join(*image, product.Name)
			digest, err := release.WriteLayout(at, builds)
			if err != nil {
				return err
			}
			fmt.Printf("%s@%s\n", at, digest)
		}
		if !product.Example {
			archived = append(archived, builds...)
		}
	}
	if *archives != "" {
		return release.WriteArchives(*root, *archives, archived)
	}
	return nil
}
