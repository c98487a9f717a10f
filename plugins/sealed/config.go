package sealed

import (
	"errors"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// Config is the configuration of a location.
type Config struct {
	objectstorev1.FrontConfig
	// Recipients are the public keys for which objects are sealed.
	Recipients string `json:"recipients" jsonschema:"The public keys of age (age1...) for which new objects are sealed, separated by commas or spaces."`
	// Prefix is set by the host.
	Prefix string `json:"prefix,omitempty" jsonschema:"Set by the server: the prefix of the location."`
}

// Validate checks the rules that a schema cannot express.
func (c Config) Validate() error {
	_, err := c.recipients()
	err = framework.InvalidKey("recipients", err)
	if c.Secret == "" && c.SecretFile == "" {
		err = errors.Join(err, framework.InvalidKey("secret", errors.New("it is missing, want NAME/KEY of the Secret with "+
			"the identities of age (AGE-SECRET-KEY-1...) that open what is sealed, or their file as secretFile")))
	}
	return err
}

func (c Config) recipients() ([]recipient, error) {
	words := strings.FieldsFunc(c.Recipients, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	return parseRecipients(words)
}

// name returns the name under which the object of a key is sealed.
func (c Config) name(key string) string {
	prefix := strings.Trim(c.Prefix, "/")
	if prefix == "" {
		return key
	}
	return strings.TrimPrefix(key, prefix+"/")
}
