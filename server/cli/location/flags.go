package location

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// credential is the flag --credential, a key of a Secret.
type credential struct{ selector *velerov1.SecretKeySelector }

// Set implements pflag.Value.
func (c *credential) Set(text string) error {
	secret, key, found := strings.Cut(text, "=")
	if !found || secret == "" || key == "" {
		return fmt.Errorf("%q: want SECRET=KEY", text)
	}
	c.selector = &velerov1.SecretKeySelector{Name: secret, Key: key}
	return nil
}

// String implements pflag.Value.
func (c *credential) String() string {
	if c.selector == nil {
		return ""
	}
	return c.selector.Name + "=" + c.selector.Key
}

// Type implements pflag.Value.
func (c *credential) Type() string { return "SECRET=KEY" }

// provider are the flags that both kinds of locations have. Those that are not given leave a location as it is.
type provider struct {
	config     map[string]string
	credential credential
}

func (p *provider) add(flags *pflag.FlagSet) {
	flags.StringToStringVar(&p.config, "config", nil, "settings of the plugin")
	flags.Var(&p.credential, "credential", "key of a Secret in the server's namespace with the credentials for the "+
		"plugin; the server's without it")
}

// apply sets what the flags give.
func (p *provider) apply(flags *pflag.FlagSet, config *map[string]string, selector **velerov1.SecretKeySelector) {
	if flags.Changed("config") {
		*config = p.config
	}
	if p.credential.selector != nil {
		*selector = p.credential.selector
	}
}

// settings are the flags of a backup storage location that can be changed later.
type settings struct {
	provider
	isDefault  bool
	access     string
	sync       time.Duration
	validation time.Duration
	caFile     string
}

func (s *settings) add(flags *pflag.FlagSet) {
	s.provider.add(flags)
	flags.BoolVar(&s.isDefault, "default", false,
		"make it the location of backups that name none; another default loses that")
	flags.StringVar(&s.access, "access-mode", string(velerov1.BackupStorageLocationAccessModeReadWrite),
		"ReadWrite, or ReadOnly for restores only")
	flags.DurationVar(&s.sync, "backup-sync-period", 0,
		"how often backups of the bucket are made visible in the cluster; 0 for never; the server's setting without it")
	flags.DurationVar(&s.validation, "validation-frequency", 0,
		"how often the location is checked; 0 for never; the server's setting without it")
	flags.StringVar(&s.caFile, "cacert", "", "file of CA certificates of the object storage")
}

// apply sets what the flags give.
func (s *settings) apply(flags *pflag.FlagSet, spec *velerov1.BackupStorageLocationSpec) error {
	s.provider.apply(flags, &spec.Config, &spec.Credential)
	if flags.Changed("default") {
		spec.Default = s.isDefault
	}
	if flags.Changed("access-mode") {
		spec.AccessMode = velerov1.BackupStorageLocationAccessMode(s.access)
		switch spec.AccessMode {
		case velerov1.BackupStorageLocationAccessModeReadWrite, velerov1.BackupStorageLocationAccessModeReadOnly:
		default:
			return fmt.Errorf("--access-mode %q: want ReadWrite or ReadOnly", s.access)
		}
	}
	for _, period := range []struct {
		flag  string
		value time.Duration
		field **metav1.Duration
	}{
		{"backup-sync-period", s.sync, &spec.BackupSyncPeriod},
		{"validation-frequency", s.validation, &spec.ValidationFrequency},
	} {
		if !flags.Changed(period.flag) {
			continue
		}
		if period.value < 0 {
			return fmt.Errorf("--%s %s: want 0 or more", period.flag, period.value)
		}
		*period.field = &metav1.Duration{Duration: period.value}
	}
	if s.caFile == "" {
		return nil
	}
	pem, err := os.ReadFile(s.caFile)
	if err != nil {
		return fmt.Errorf("--cacert: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fmt.Errorf("--cacert: %s holds no certificate in PEM form", s.caFile)
	}
	if spec.ObjectStorage == nil {
		spec.ObjectStorage = &velerov1.ObjectStorageLocation{}
	}
	spec.ObjectStorage.CACert, spec.ObjectStorage.CACertRef = pem, nil
	return nil
}
