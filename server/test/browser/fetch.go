package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cleat-dev/cleat/server/test/localcluster/debian"
)

// browserPart is what the browser is made of.
func browserPart() debian.Part {
	return debian.Part{Name: "chromium", Packages: []string{"chromium-headless-shell", "fonts-dejavu-core"},
		Program: program, Args: []string{"--no-sandbox", "--dump-dom", "about:blank"}}
}

const program = "usr/lib/chromium/chromium-headless-shell"

// chromium is an unpacked browser.
type chromium struct {
	program   string
	libraries string // a list of directories
	fonts     string // a file that describes them
}

// findChromium returns the browser in the cache, and unpacks it first if it is not there. Nothing is installed.
func findChromium(ctx context.Context) (chromium, error) {
	cache, err := debian.Dir()
	if err != nil {
		return chromium{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return chromium{}, err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "chromium.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return chromium{}, err
	}
	defer lock.Close() //nolint:errcheck // nothing was written; it ends the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return chromium{}, err
	}
	if err := browserPart().Unpack(ctx, cache); err != nil {
		return chromium{}, err
	}
	root := filepath.Join(cache, browserPart().Name)
	found := chromium{program: filepath.Join(root, program)}
	if found.libraries, err = debian.Libraries(root); err != nil {
		return chromium{}, err
	}
	found.fonts, err = fonts(root, cache)
	return found, err
}

// describe is what fontconfig reads: the fonts of the package and no others, so that pages look the same everywhere.
const describe = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
	<dir>%s</dir>
	<cachedir>%s</cachedir>
	<alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
	<alias binding="same"><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
	<match target="pattern"><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
	<match target="font">
		<edit name="antialias" mode="assign"><bool>true</bool></edit>
		<edit name="hinting" mode="assign"><bool>false</bool></edit>
		<edit name="rgba" mode="assign"><const>none</const></edit>
	</match>
</fontconfig>
`

// fonts writes the description of the fonts of an unpacked browser.
func fonts(root, cache string) (string, error) {
	path := filepath.Join(cache, "fonts.conf")
	text := fmt.Sprintf(describe, filepath.Join(root, "usr/share/fonts/truetype/dejavu"),
		filepath.Join(cache, "fontconfig"))
	if was, err := os.ReadFile(path); err == nil && string(was) == text {
		return path, nil
	}
	return path, os.WriteFile(path, []byte(text), 0o600) // nobody else writes: the lock is held
}
