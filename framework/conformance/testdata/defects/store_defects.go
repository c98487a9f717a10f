package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
)

func storeDefects() map[string]defect {
	plant := func(change func(*store)) defect {
		return defect{kind: "ObjectStore", plant: func(p *program) { change(p.store) }}
	}
	onInit := func(before func(s *store, config map[string]string, newer bool) error) defect {
		return plant(func(s *store) {
			good := s.init
			s.init = func(config map[string]string, newer bool) error {
				if err := before(s, config, newer); err != nil {
					return err
				}
				return good(config, newer)
			}
		})
	}
	onPut := func(change func(s *store, key string, content []byte) ([]byte, error)) defect {
		return plant(func(s *store) {
			good := s.put
			s.put = func(ctx context.Context, bucket, key string, body io.Reader) error {
				content, err := io.ReadAll(body)
				if err != nil {
					return err
				}
				if content, err = change(s, key, content); err != nil {
					return err
				}
				return good(ctx, bucket, key, bytes.NewReader(content))
			}
		})
	}
	onList := func(change func(prefix string, keys []string) []string) defect {
		return plant(func(s *store) {
			good := s.list
			s.list = func(bucket, prefix string) ([]string, error) {
				keys, err := good(bucket, prefix)
				return change(prefix, keys), err
			}
		})
	}
	var current atomic.Pointer[[]byte]
	others := newCrowd(1)
	return map[string]defect{
		"store-before-init": plant(func(s *store) {
			good := s.list
			s.list = func(bucket, prefix string) ([]string, error) {
				if s.root == "" {
					os.Exit(1)
				}
				return good(bucket, prefix)
			}
		}),
		"store-config-missing": onInit(func(_ *store, config map[string]string, _ bool) error {
			if config["bucket"] == "" {
				os.Exit(1)
			}
			return nil
		}),
		"store-config-unknown": onInit(func(_ *store, config map[string]string, _ bool) error {
			delete(config, "conformanceUnknown")
			return nil
		}),
		"store-init/refuses": onInit(func(*store, map[string]string, bool) error { return errors.New("never") }),
		"store-init/newer": onInit(func(_ *store, _ map[string]string, newer bool) error {
			if newer {
				return errors.New("unknown field")
			}
			return nil
		}),
		"store-init-again": plant(func(s *store) {
			good := s.init
			s.init = func(config map[string]string, newer bool) error {
				if s.root != "" {
					s.root = ""
					return errors.New("again?")
				}
				return good(config, newer)
			}
		}),
		"store-round-trip": onPut(func(_ *store, _ string, content []byte) ([]byte, error) {
			if len(content) == 16385 {
				content = content[:16384]
			}
			return content, nil
		}),
		"store-empty-object": onPut(func(_ *store, _ string, content []byte) ([]byte, error) {
			if len(content) == 0 {
				return nil, errors.New("there is nothing to store")
			}
			return content, nil
		}),
		"store-large-object": onPut(func(_ *store, _ string, content []byte) ([]byte, error) {
			if len(content) > 3<<19 {
				return nil, errors.New("too large")
			}
			return content, nil
		}),
		"store-pieces": plant(func(s *store) { s.piece = 1 << 20 }),
		"store-locks": plant(func(s *store) {
			s.locks = func() *objectlockv1.LocksResponse { return &objectlockv1.LocksResponse{Mode: 7} }
		}).also("store-hold"),
		"store-hold/deletes": plant(func(s *store) {
			good := s.remove
			s.remove = func(bucket, key string) error {
				s.mu.Lock()
				delete(s.held, key)
				s.mu.Unlock()
				return good(bucket, key)
			}
		}),
		"store-hold/without reason": plant(func(s *store) {
			good := s.remove
			s.remove = func(bucket, key string) error {
				if s.isHeld(key) {
					return errors.New("access denied")
				}
				return good(bucket, key)
			}
		}),
		"store-hold/forever": plant(func(s *store) {
			s.hold = func(key string, _ bool) { s.held[key] = true }
		}),
		"store-replace": onPut(func(s *store, key string, content []byte) ([]byte, error) {
			if strings.HasSuffix(key, "/key") {
				if before, err := s.get("bucket", key); err == nil {
					return before, nil
				}
			}
			return content, nil
		}),
		"store-exists": plant(func(s *store) { // deleted objects are not forgotten
			seen := map[string]bool{}
			good := s.exists
			s.exists = func(bucket, key string) (bool, error) {
				there, err := good(bucket, key)
				seen[key] = seen[key] || there
				return seen[key], err
			}
		}),
		"store-get-missing": plant(func(s *store) {
			good := s.get
			s.get = func(bucket, key string) ([]byte, error) {
				if there, err := s.exists(bucket, key); err == nil && !there {
					return nil, nil
				}
				return good(bucket, key)
			}
		}),
		"store-delete-missing": plant(func(s *store) {
			good := s.remove
			s.remove = func(bucket, key string) error {
				if there, err := s.exists(bucket, key); err == nil && !there {
					return errors.New("there is no such object")
				}
				return good(bucket, key)
			}
		}),
		"store-list/neighbours": plant(func(s *store) { // of a folder that is missing
			good := s.list
			s.list = func(bucket, prefix string) ([]string, error) {
				keys, err := good(bucket, prefix)
				if err == nil && len(keys) == 0 {
					keys, err = good(bucket, strings.TrimSuffix(prefix, "/"))
				}
				return keys, err
			}
		}),
		"store-prefixes/neighbours": plant(func(s *store) {
			good := s.prefixes
			s.prefixes = func(bucket, prefix string) ([]string, error) {
				folders, err := good(bucket, prefix)
				if parent := parentOf(prefix); err == nil && len(folders) == 0 && prefix != "" {
					folders, err = good(bucket, parent)
					folders = slices.DeleteFunc(folders,
						func(folder string) bool { return !strings.HasPrefix(folder, strings.TrimSuffix(prefix, "/")) })
				}
				return folders, err
			}
		}),
		"store-list/depth": onList(func(prefix string, keys []string) []string {
			if strings.HasSuffix(prefix, "backups/b1/") {
				return slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, "/deep/") })
			}
			return keys
		}),
		"store-prefixes/delimiter": plant(func(s *store) {
			good := s.prefixes
			s.prefixes = func(bucket, prefix string) ([]string, error) {
				folders, err := good(bucket, prefix)
				if strings.HasSuffix(prefix, "backups/") {
					for i := range folders {
						folders[i] = strings.TrimSuffix(folders[i], "/")
					}
				}
				return folders, err
			}
		}),
		"store-list-many": onList(func(_ string, keys []string) []string { return keys[:min(len(keys), 100)] }),
		"store-odd-keys": plant(func(s *store) {
			good := s.put
			s.put = func(ctx context.Context, bucket, key string, body io.Reader) error {
				if strings.Contains(key, "/odd/") {
					key = strings.ReplaceAll(key, "%20", " ")
				}
				return good(ctx, bucket, key, body)
			}
		}),
		"store-broken-upload": plant(func(s *store) {
			good := s.put
			s.put = func(ctx context.Context, bucket, key string, body io.Reader) error {
				content, _ := io.ReadAll(body) // stores what has arrived
				return good(ctx, bucket, key, bytes.NewReader(content))
			}
		}).waiting(),
		"store-early-close": plant(func(s *store) { s.sendErr = func() { os.Exit(1) } }),
		"store-concurrent": onPut(func(_ *store, key string, content []byte) ([]byte, error) {
			if !strings.Contains(key, "/at/once/") {
				return content, nil
			}
			current.Store(&content)
			others.join(context.Background())
			return *current.Load(), nil
		}),
		"store-missing-bucket": plant(func(s *store) {
			good := s.list
			s.list = func(bucket, prefix string) ([]string, error) {
				if bucket != "bucket" && s.root != "" {
					return nil, nil
				}
				return good(bucket, prefix)
			}
		}),
		"store-signed-url/relative": plant(func(s *store) {
			s.url = func(_, key string) (string, error) { return "/" + key, nil }
		}),
		"store-signed-url/other": plant(func(s *store) {
			s.url = func(_, key string) (string, error) { return "file:///nowhere/" + key, nil }
		}),
		"store-restart": plant(func(s *store) { // objects are kept in memory only
			objects := map[string][]byte{}
			var mu sync.Mutex
			s.put = func(_ context.Context, bucket, key string, body io.Reader) error {
				content, err := io.ReadAll(body)
				if _, dirErr := s.dir(bucket); err != nil || dirErr != nil {
					return errors.Join(err, dirErr)
				}
				mu.Lock()
				defer mu.Unlock()
				objects[key] = content
				return nil
			}
			s.exists = func(_, key string) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				_, there := objects[key]
				return there, nil
			}
			s.get = func(_, key string) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				content, there := objects[key]
				if !there {
					return nil, errors.New("no such object")
				}
				return content, nil
			}
			s.remove = func(_, key string) error {
				if s.isHeld(key) {
					return heldError(key)
				}
				mu.Lock()
				defer mu.Unlock()
				delete(objects, key)
				return nil
			}
			s.list = func(bucket, prefix string) ([]string, error) {
				if _, err := s.dir(bucket); err != nil {
					return nil, err
				}
				mu.Lock()
				defer mu.Unlock()
				return slices.DeleteFunc(slices.Sorted(maps.Keys(objects)),
					func(key string) bool { return !strings.HasPrefix(key, prefix) }), nil
			}
			s.prefixes = func(bucket, prefix string) ([]string, error) { return foldersBelow(prefix)(s.list(bucket, prefix)) }
			s.url = func(string, string) (string, error) { return "", errors.New("cannot do that") }
		}),
	}
}

func parentOf(folder string) string {
	return folder[:strings.LastIndex(strings.TrimSuffix(folder, "/"), "/")+1]
}
