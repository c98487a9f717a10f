// Command cleat-release builds images and archives of the server and of plugins from the source tree, reproducibly and
// without a container runtime.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore/pkg/signature"

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
	snapshot := flag.String("debian-snapshot", "", "take the libraries of the server's image as Debian had them "+
		"at this time, "+
		"as 20261101T000000Z, from snapshot.debian.org; the newest ones by default")
	repository := flag.String("repository", "ghcr.io/cleat-dev", "repository of the images: a registry and a path")
	push := flag.Bool("push", false,
		"push the images that are in the directory of -image to the repository, and build nothing")
	key := flag.String("key", "", "file of the private key that signs the checksums of archives, and the images that are "+
		"pushed: one of cosign, with its password in COSIGN_PASSWORD, of \"cleat key create\", or of openssl; empty signs nothing")
	flag.Parse()
	if *image == "" && *archives == "" {
		return errors.New("say what to write: -image DIR or -archives DIR")
	}
	products, err := release.Select(strings.FieldsFunc(*names, func(r rune) bool { return r == ',' || r == ' ' }))
	if err != nil {
		return fmt.Errorf("-products: %w", err)
	}
	var signer signature.Signer
	if *key != "" {
		if signer, err = release.OpenKey(*key, os.Getenv("COSIGN_PASSWORD")); err != nil {
			return fmt.Errorf("-key: %w", err)
		}
	}
	if *push {
		return pushAll(ctx, *image, *repository, products, signer)
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
			if *image != "" {
				if err := (release.Debian{Snapshot: *snapshot}).Put(ctx, &built); err != nil {
					return err
				}
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
			if written, err := release.WriteTarball(at+".tar", *repository, builds); err != nil {
				return err
			} else if written {
				fmt.Printf("%s.tar has %s/%s:%s\n", at, *repository, product.Name, *version)
			}
		}
		if !product.Example {
			archived = append(archived, builds...)
		}
	}
	if *archives == "" {
		return nil
	}
	if err := release.WriteArchives(*root, *archives, archived); err != nil || signer == nil {
		return err
	}
	return release.SignFile(filepath.Join(*archives, release.Checksums), signer)
}

// pushAll pushes the images of products that are in a directory, and signs them if there is a signer.
func pushAll(
	ctx context.Context, dir, repository string, products []release.Product, signer signature.Signer,
) error {
	pushed := 0
	for _, product := range products {
		at := filepath.Join(dir, product.Name)
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		image, err := release.Push(ctx, at, repository, product.Name, signer)
		if err != nil {
			return err
		}
		fmt.Println(image)
		pushed++
	}
	if pushed == 0 {
		return fmt.Errorf("%s has no images; build them with make image", dir)
	}
	return nil
}
