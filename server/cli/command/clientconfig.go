package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/server/internal/kube/wholefile"
)

// ClientConfig is the configuration file of the client, which Velero's client reads as well. Unknown keys stay in it.
type ClientConfig struct {
	path   string // "" without a home directory
	Values map[string]any
}

// ReadClientConfig reads the file. One that does not exist has no values.
func ReadClientConfig() (ClientConfig, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return ClientConfig{}, nil //nolint:nilerr // without a home there is no file
	}
	c := ClientConfig{path: filepath.Join(home, ".config", "velero", "config.json"), Values: map[string]any{}}
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the client's configuration: %w", err)
	}
	if err := json.Unmarshal(data, &c.Values); err != nil {
		return c, fmt.Errorf(`read the client's configuration %s, want {"namespace": "..."}: %w`, c.path, err)
	}
	return c, nil
}

// Text returns a value that is a text, "" if there is none. Another value is an error.
func (c ClientConfig) Text(key string) (string, error) {
	value, found := c.Values[key]
	if !found {
		return "", nil
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf(`the client's configuration %s: %s is %v, want a text, as in {%q: "..."}`, c.path, key, value,
			key)
	}
	return text, nil
}

// Write replaces the file.
func (c ClientConfig) Write() error {
	if c.path == "" {
		return errors.New("there is no home directory for the client's configuration; set $HOME")
	}
	data, err := json.Marshal(c.Values)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil { //nolint:gosec // as other programs make it
		return err
	}
	if err := wholefile.Write(c.path, data, 0o600); err != nil {
		return fmt.Errorf("write the client's configuration: %w", err)
	}
	return nil
}
