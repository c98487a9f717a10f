package key

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

func newVerifyCommand(a *command.App) *cobra.Command {
	var key, signature string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify the signature of a file, such as checksums.txt of a release",
		Long: "Verify the signature of a file that \"cosign sign-blob --key\" or \"make release\" has made, without a " +
			"server. The files beside it\n" +
			"whose SHA-256 sums it lists, in the form of sha256sum, are compared with these sums.",
		Example: "  cleat key verify checksums.txt --key cosign.pub",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			public, content, err := verifyFile(args[0], key, signature)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s: signed with key %s\n", args[0], public.ID)
			return compareListed(a, filepath.Dir(args[0]), content)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "file of the public key")
	cmd.Flags().StringVar(&signature, "signature", "", "file of the signature; default FILE.sig")
	_ = cmd.MarkFlagRequired("key") // it exists
	return cmd
}

// mostSigned is the size of the largest file that is verified, in bytes: it is read whole.
const mostSigned = 64 << 20

// verifyFile returns the content of a file and the public key, whose holder has signed it.
func verifyFile(file, key, signature string) (public trust.PublicKey, content []byte, err error) {
	if signature == "" {
		signature = file + ".sig"
	}
	texts := map[string][]byte{}
	for _, path := range []string{key, file, signature} {
		info, err := os.Stat(path)
		if err == nil && info.Size() > mostSigned {
			err = fmt.Errorf("%s has %d bytes, at most %d are verified; sign the sums of large files", path, info.Size(),
				int64(mostSigned))
		}
		if err == nil {
			texts[path], err = os.ReadFile(path)
		}
		if err != nil {
			return public, nil, err
		}
	}
	if public, err = trust.ParsePublicKey(texts[key]); err != nil {
		return public, nil, fmt.Errorf("%s: %w", key, err)
	}
	sum, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(texts[signature])))
	if err != nil {
		return public, nil, fmt.Errorf("%s: want a signature in base64, as cosign writes it: %w", signature, err)
	}
	if err := public.Verify(texts[file], sum); err != nil {
		return public, nil, fmt.Errorf("%s is not what the holder of key %s (%s) has signed: %w", file, public.ID, key, err)
	}
	return public, texts[file], nil
}

// listed matches a line of sha256sum that names a file in the same directory.
var listed = regexp.MustCompile(`^([0-9a-f]{64}) [ *]([^/]+)$`)

// compareListed compares the files in a directory with the sums in a list. Files that are not there are left out.
func compareListed(a *command.App, dir string, list []byte) error {
	var problems error
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		line := listed.FindStringSubmatch(lines.Text())
		if line == nil {
			continue
		}
		got, err := pluginlock.SumFile(filepath.Join(dir, line[2]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			problems = errors.Join(problems, err)
		case got != line[1]:
			problems = errors.Join(problems, fmt.Errorf("%s has the SHA-256 sum %s, and %s is signed", line[2], got, line[1]))
		default:
			fmt.Fprintf(a.Out, "%s: OK\n", line[2])
		}
	}
	return problems
}
