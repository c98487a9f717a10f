package kopia

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
)

// Config is the configuration of the mover, in plugins.config of the server's config file.
type Config struct {
	CacheDirectory string `json:"cacheDirectory,omitempty" jsonschema:"Where metadata and data of repositories in S3 are cached; on a node, each repository has its own part. The default is below the state directory of the plugin."`
	CacheLimitMB   int    `json:"cacheLimitMB" jsonschema:"How many MB the cache of a repository has, metadata and data, unless the repository has a limit of its own. Repositories in directories have no cache."`
	UploadLimit    string `json:"uploadLimit,omitempty" jsonschema:"How many bytes a call may send per second, such as 20Mi. The default is unlimited."`
	DownloadLimit  string `json:"downloadLimit,omitempty" jsonschema:"How many bytes a call may receive per second, such as 20Mi. The default is unlimited."`
	MemoryLimit    string `json:"memoryLimit,omitempty" jsonschema:"How much memory the mover tries to stay below, such as 512Mi: near it, it collects garbage more often and moves fewer large files at once. The default is 192Mi, and 32Mi for each core. A smaller GOMEMLIMIT in its environment counts instead."`
	Compression    string `json:"compression" jsonschema:"The compressor for new data: none, or one of kopia, such as zstd-fastest, zstd or s2-default."`
	Parallelism    int    `json:"parallelism,omitempty" jsonschema:"How many files a call reads or writes at once, unless the backup or restore says so itself. The default follows the number of cores."`
	CompareCtime   bool   `json:"compareCtime,omitempty" jsonschema:"Whether a file is read again if only the time of the last change of its attributes (ctime) is newer than the last backup. By default, as in Velero, a file is unchanged if its size, time of modification, mode and owner are. With it, each start of a pod with an fsGroup, which sets the group of all files, costs the whole volume."`
}

// Defaults returns the values of keys that are not set.
func Defaults() Config {
	return Config{CacheLimitMB: 2000, Compression: "zstd-fastest"}
}

// Validate checks what the schema cannot.
func (c Config) Validate() error {
	return errors.Join(
		framework.InvalidKey("cacheLimitMB", checkRange(c.CacheLimitMB, 0, maxCacheMB)),
		framework.InvalidKey("uploadLimit", checkQuantity(c.UploadLimit, 1<<10)),
		framework.InvalidKey("downloadLimit", checkQuantity(c.DownloadLimit, 1<<10)),
		framework.InvalidKey("memoryLimit", checkQuantity(c.MemoryLimit, 64<<20)),
		framework.InvalidKey("compression", checkCompression(c.Compression)),
		framework.InvalidKey("parallelism", checkRange(c.Parallelism, 0, maxParallelism)),
	)
}

const (
	maxCacheMB     = 10_000_000
	maxParallelism = 1000
)

func checkRange(number, least, most int) error {
	if number < least || number > most {
		return fmt.Errorf("it is %d, want %d to %d", number, least, most)
	}
	return nil
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

func checkCompression(name string) error {
	if !repository.HasCompressor(name) {
		return fmt.Errorf("it is %q, want none or a compressor of kopia, such as zstd-fastest", name)
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
