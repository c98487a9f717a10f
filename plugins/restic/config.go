package restic

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleat-dev/cleat/framework"
)

// Config is the configuration of the mover, in plugins.config of the server's config file.
type Config struct {
	Program         string `json:"program" jsonschema:"The restic program, 0.14 or newer: a path, or the name of one that came with the plugin or is in PATH."`
	CacheDirectory  string `json:"cacheDirectory,omitempty" jsonschema:"Where restic caches metadata of repositories; on a node, each repository has its own part. The default is below the state directory of the plugin."`
	UploadLimit     string `json:"uploadLimit,omitempty" jsonschema:"How many bytes a call may send per second, such as 20Mi. The default is unlimited."`
	DownloadLimit   string `json:"downloadLimit,omitempty" jsonschema:"How many bytes a call may receive per second, such as 20Mi. The default is unlimited."`
	Connections     int    `json:"connections,omitempty" jsonschema:"How many requests a call sends to the storage at once. The default is restic's, 5 for S3."`
	ReadConcurrency int    `json:"readConcurrency,omitempty" jsonschema:"How many files a backup reads at once, unless the backup says so itself; needs restic 0.15. The default is restic's."`
	MemoryLimit     string `json:"memoryLimit,omitempty" jsonschema:"How much memory restic tries to stay below, such as 512Mi: beyond it, it collects garbage more often. The default is unlimited."`
	Compression     string `json:"compression,omitempty" jsonschema:"auto, off or max. The default is auto."`
	LockWait        string `json:"lockWait" jsonschema:"How long a call waits for the locks of others, such as 40m. Locks of processes that are gone are stale after 30 minutes."`
	MaxUnused       string `json:"maxUnused,omitempty" jsonschema:"How much unused data maintenance leaves in a repository, such as 5%, 10G or unlimited. The default is 5%."`
}

// Defaults returns the values of keys that are not set.
func Defaults() Config { return Config{Program: "restic", LockWait: "40m"} }

// Validate checks what the schema cannot.
func (c Config) Validate() error {
	return errors.Join(
		framework.InvalidKey("uploadLimit", checkQuantity(c.UploadLimit, 1<<10)),
		framework.InvalidKey("downloadLimit", checkQuantity(c.DownloadLimit, 1<<10)),
		framework.InvalidKey("memoryLimit", checkQuantity(c.MemoryLimit, 64<<20)),
		framework.InvalidKey("connections", checkCount(c.Connections)),
		framework.InvalidKey("readConcurrency", checkCount(c.ReadConcurrency)),
		framework.InvalidKey("compression", checkCompression(c.Compression)),
		framework.InvalidKey("lockWait", checkDuration(c.LockWait)),
	)
}

func checkQuantity(text string, least int64) error {
	if text == "" {
		return nil
	}
	parsed, err := resource.ParseQuantity(text)
	if err != nil || parsed.Value() < least {
		return fmt.Errorf("it is %q, want a number of bytes of at least %d, such as 512Mi", text, least)
	}
	return nil
}

func checkCount(count int) error {
	if count < 0 || count > 1000 {
		return fmt.Errorf("it is %d, want 1 to 1000, or nothing for the default", count)
	}
	return nil
}

func checkCompression(text string) error {
	switch text {
	case "", "auto", "off", "max":
		return nil
	}
	return fmt.Errorf("it is %q, want auto, off or max", text)
}

func checkDuration(text string) error {
	if wait, err := time.ParseDuration(text); err != nil || wait < 0 {
		return fmt.Errorf("it is %q, want a duration such as 40m", text)
	}
	return nil
}

// bytesOf returns the number of bytes of a valid quantity; 0 for none.
func bytesOf(text string) int64 {
	if text == "" {
		return 0
	}
	parsed := resource.MustParse(text)
	return parsed.Value()
}

// flags returns the flags of restic that every command gets.
func (c Config) flags() []string {
	var flags []string
	if limit := bytesOf(c.UploadLimit); limit > 0 {
		flags = append(flags, fmt.Sprintf("--limit-upload=%d", limit>>10)) // KiB per second
	}
	if limit := bytesOf(c.DownloadLimit); limit > 0 {
		flags = append(flags, fmt.Sprintf("--limit-download=%d", limit>>10))
	}
	if c.Compression != "" {
		flags = append(flags, "--compression="+c.Compression)
	}
	return flags
}

// environment returns the variables that every command gets.
func (c Config) environment() []string {
	if limit := bytesOf(c.MemoryLimit); limit > 0 {
		return []string{fmt.Sprintf("GOMEMLIMIT=%d", limit)}
	}
	return nil
}
