package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

func checkStoreSignedURL(ctx context.Context, s *store) error {
	names := []string{"log.gz", "a b/c+d", "per%20cent", "q?uest=ion&more", "hash#tag", "ünï/日本"}
	return s.Each(ctx, len(names), func(ctx context.Context, i int) error {
		key := s.folder + "signed/" + names[i]
		if err := s.put(ctx, key, strings.NewReader("content of "+key)); err != nil {
			return suite.Skip("PutObject does not work: %v", err)
		}
		return s.readsSigned(ctx, key, "content of "+key)
	})
}

// readsSigned asks for a signed URL of an object and reads it.
func (s *store) readsSigned(ctx context.Context, key, content string) error {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	answer, err := s.client.CreateSignedURL(ctx, &objectstorev1.CreateSignedURLRequest{
		Plugin: s.Name, Bucket: s.bucket, Key: key, Ttl: int64(10 * time.Minute),
	})
	if err != nil {
		if suite.NotHung(err) != nil || suite.Panicked(err) || status.Code(err) == codes.Unimplemented {
			return err
		}
		return suite.Skip("the store answers an error: %v", err)
	}
	signed, err := url.Parse(answer.GetUrl())
	if err != nil || signed.Scheme == "" {
		return fmt.Errorf("the URL for %q has no scheme", key)
	}
	got, err := read(ctx, signed)
	if err != nil {
		return fmt.Errorf("for %q: %w", key, err)
	}
	if string(got) != content {
		return fmt.Errorf("for %q the URL reads %s, want %q", key, sample.Brief(got), content)
	}
	return nil
}

// unreachable reports whether err means that there was no connection.
func unreachable(err error) bool {
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &name) || errors.As(err, &network) && network.Op == "dial"
}

// read fetches a URL without credentials.
func read(ctx context.Context, signed *url.URL) ([]byte, error) {
	switch signed.Scheme {
	case "file":
		return os.ReadFile(filepath.FromSlash(signed.Path))
	case "http", "https":
	default:
		return nil, suite.Skip("this suite cannot read a URL with the scheme %q", signed.Scheme)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, signed.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		var told *url.Error
		if errors.As(err, &told) { // without the URL, which grants access
			err = told.Err
		}
		if unreachable(err) {
			return nil, suite.Skip("no server answers at the address of the URL: %v", err)
		}
		return nil, fmt.Errorf("read the URL: %w", err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the URL reads with the status %s: %s", response.Status, sample.Brief(got))
	}
	return got, err
}
