package key

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// NewCommand returns the command "key".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("key", "Work with the keys that sign backups and releases", newCreateCommand(a),
		newShowCommand(a), newVerifyCommand(a))
}

func newCreateCommand(a *command.App) *cobra.Command {
	var out, secret string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a key that signs backups",
		Long: "Create an Ed25519 key. The Secret, in the namespace of the server, gets the private key as \"key\" and the " +
			"public one as\n" +
			"\"publicKey\"; the file gets the private key, and the file with .pub after its name the public one. The " +
			"configuration of the\n" +
			"server names the Secret or the file: backups.signing.key. The public key suffices to verify backups.",
		Example: `  cleat key create --secret backup-signing --out signing.pem
  cleat key create --out signing.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" && secret == "" {
				return errors.New("want the Secret or the file for the private key: --secret NAME, --out FILE or both")
			}
			private, err := trust.NewKey()
			if err != nil {
				return err
			}
			signer, err := trust.ParseKey(private)
			if err != nil {
				return err
			}
			var where []string
			if out != "" {
				if err := writeFiles(out, private, signer.Public.PEM); err != nil {
					return err
				}
				where = append(where, out+" has the private key, "+out+".pub the public one")
			}
			if secret != "" {
				if err := createSecret(cmd, a, secret, private, signer.Public.PEM); err != nil {
					return err
				}
				where = append(where, "Secret "+secret+" has both; in the configuration of the server: "+
					"backups: {signing: {key: {secret: "+secret+"/key}}}")
			}
			fmt.Fprintf(a.Out, "Key %s\n%s\n", signer.Public.ID, strings.Join(where, "\n"))
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file for the private key")
	cmd.Flags().StringVar(&secret, "secret", "", "name of a Secret to create with the key")
	return cmd
}

// writeFiles creates the files of a key, both or none.
func writeFiles(out string, private, public []byte) error {
	for _, path := range []string{out, out + ".pub"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists; name another file with --out", path)
		}
	}
	if err := write(out, private, 0o600); err != nil {
		return err
	}
	if err := write(out+".pub", public, 0o644); err != nil {
		return errors.Join(err, os.Remove(out))
	}
	return nil
}

// createSecret creates a Secret with a key. It does not replace one.
func createSecret(cmd *cobra.Command, a *command.App, name string, private, public []byte) error {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	err = cluster.Create(cmd.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name,
			Labels: map[string]string{velerov1.ExcludeFromBackupLabel: "true"}},
		Data: map[string][]byte{"key": private, "publicKey": public},
	})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the Secret %s/%s exists; name another one with --secret, and in the configuration of the server",
			cluster.Namespace, name)
	}
	return err
}

// write creates a file, and has it on disk.
func write(path string, content []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

func newShowCommand(a *command.App) *cobra.Command {
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show the public keys whose signatures the server accepts, or that of a file",
		Long: "Show the public keys whose signatures of backups the server accepts, the one with which it signs first. " +
			"With the file of a private\n" +
			"or public key, show the public key, without a server.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(output, "text"); err != nil {
				return err
			}
			var keys []serverreport.Key
			var err error
			if len(args) == 1 {
				keys, err = ofFile(args[0])
			} else {
				var cluster *command.Cluster
				if cluster, err = a.Cluster.Connect(); err == nil {
					keys, err = ofServer(cmd.Context(), cluster, timeout)
				}
			}
			if err != nil {
				return err
			}
			return a.Print(output, []string{"text"}, keys, func() error {
				print(a, keys)
				return nil
			})
		},
	}
	command.AddOutput(cmd, &output, "text")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait for the server")
	return cmd
}

// ofFile returns the public key of a file.
func ofFile(path string) ([]serverreport.Key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	public, err := trust.ParsePublicKey(content)
	if err != nil {
		signer, private := trust.ParseKey(content)
		if private != nil {
			return nil, fmt.Errorf("%s: neither a public key nor a private one: %w", path, errors.Join(err, private))
		}
		public = signer.Public
	}
	return []serverreport.Key{{ID: public.ID, PEM: string(public.PEM)}}, nil
}

// Accepted asks the server for the keys whose signatures it accepts.
func Accepted(ctx context.Context, cluster *command.Cluster, timeout time.Duration) (ring trust.Ring, err error) {
	keys, err := ofServer(ctx, cluster, timeout)
	for _, k := range keys {
		accepted := trust.Accepted{Name: k.Name, Own: k.Signs, NotAfter: k.NotAfter}
		if k.Problem != "" {
			accepted.Problem = errors.New(k.Problem)
		} else {
			accepted.PublicKey, accepted.Problem = trust.ParsePublicKey([]byte(k.PEM))
		}
		ring = append(ring, accepted)
	}
	return ring, err
}

// ofServer asks the server for its keys.
func ofServer(ctx context.Context, cluster *command.Cluster, timeout time.Duration) ([]serverreport.Key, error) {
	answer, err := cluster.ServerStatus(ctx, timeout, nil)
	if err != nil {
		return nil, err
	}
	report, err := queue.PoliciesOf(answer)
	switch {
	case err != nil:
		return nil, err
	case report == nil:
		return nil, errors.New("the server does not report its keys: it is Velero's, or an older cleat")
	}
	return report.Keys, nil
}

func print(a *command.App, keys []serverreport.Key) {
	if len(keys) == 0 {
		fmt.Fprintln(a.Out, "The server has no keys: its backups are not signed, and it accepts no signature.")
	}
	for i, key := range keys {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		fmt.Fprintln(a.Out, Describe(key))
		if key.PEM != "" {
			fmt.Fprint(a.Out, key.PEM)
		}
	}
}

// Describe returns a key in one line.
func Describe(key serverreport.Key) string {
	text := "Key " + layout.OneLine(key.ID)
	if key.ID == "" {
		text = "Key"
	}
	if key.Name != "" {
		text += " " + layout.OneLine(key.Name)
	}
	if key.Signs {
		text += ", signs backups"
	}
	if !key.NotAfter.IsZero() {
		text += ", accepted for backups until " + key.NotAfter.UTC().Format(time.RFC3339)
	}
	if key.Problem != "" {
		text += ", cannot be used: " + layout.OneLine(key.Problem)
	}
	return text
}
