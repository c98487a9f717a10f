package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	// partSize is the minimum of S3, which keeps memory low. S3 allows 10,000 parts, so an object can have 52 GB.
	partSize = 5 << 20
	maxParts = 10_000
	// abortGrace is how long the abort of a failed upload may take.
	abortGrace = 15 * time.Second
)

// inParts reports whether the key reaches S3 unchanged. The Go CDK escapes a few characters and uploads objects with
// such keys itself.
func inParts(key string) bool {
	return !strings.Contains(key, "../") && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' })
}

// readHead reads the first part of body, or all of it if it is smaller. The buffer grows, because most objects are far
// smaller.
func readHead(body io.Reader) ([]byte, error) {
	head := make([]byte, 0, 64<<10)
	for {
		n, err := io.ReadFull(body, head[len(head):cap(head)])
		head = head[:len(head)+n]
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return head, nil
		case err != nil || len(head) == partSize:
			return head, err
		}
		grown := make([]byte, len(head), min(4*len(head), partSize))
		copy(grown, head)
		head = grown
	}
}

// putParts uploads a large object. head is its first part. The Go CDK would use buffers of five times the size. The
// object appears when it is complete; a failure or the end of ctx aborts the upload.
func (s *store) putParts(
	ctx context.Context, bucket, key string, head []byte, body io.Reader, ifAbsent bool, locked lock,
) error {
	algorithm := types.ChecksumAlgorithm(s.config.ChecksumAlgorithm)
	create := &s3.CreateMultipartUploadInput{
		Bucket: &bucket, Key: &key, ContentType: aws.String(contentType),
		ChecksumAlgorithm: algorithm, ServerSideEncryption: s.config.encryption(),
		ObjectLockMode: locked.mode, ObjectLockRetainUntilDate: locked.at(),
	}
	if s.config.KMSKeyID != "" {
		create.SSEKMSKeyId = &s.config.KMSKeyID
	}
	created, err := s.calls.CreateMultipartUpload(ctx, create)
	if err != nil {
		return err
	}
	upload := &upload{calls: s.calls, bucket: &bucket, key: &key, id: created.UploadId, algorithm: algorithm,
		md5: func(part []byte) *string { return s.md5(part, locked) }}
	if err := upload.send(ctx, head, body); err != nil {
		return errors.Join(err, upload.takeBack(ctx))
	}
	complete := &s3.CompleteMultipartUploadInput{
		Bucket: &bucket, Key: &key, UploadId: created.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: upload.parts},
	}
	if ifAbsent {
		complete.IfNoneMatch = aws.String("*")
	}
	_, err = s.calls.CompleteMultipartUpload(ctx, complete)
	if ifAbsent && isUnsupported(err) {
		s.learn(false)
		complete.IfNoneMatch = nil
		_, err = s.calls.CompleteMultipartUpload(ctx, complete)
	}
	if err != nil {
		return errors.Join(err, upload.takeBack(ctx))
	}
	return nil
}

// upload is one multipart upload.
type upload struct {
	calls     *s3.Client
	bucket    *string
	key       *string
	id        *string
	algorithm types.ChecksumAlgorithm
	md5       func(part []byte) *string
	parts     []types.CompletedPart // by number, from 1
}

// send uploads head and then body, one part after the other through one buffer. That is faster than an API server lists
// the content of a backup, and uses the least memory that S3 allows.
func (u *upload) send(ctx context.Context, head []byte, body io.Reader) error {
	buffer, n := head, len(head)
	for number := int32(1); n > 0; number++ {
		if number > maxParts {
			return fmt.Errorf("the object is larger than the %d GB that fit into %d parts", int64(partSize)*maxParts>>30,
				maxParts)
		}
		part, err := u.part(ctx, number, buffer[:n])
		if err != nil {
			return fmt.Errorf("part %d: %w", number, err)
		}
		u.parts = append(u.parts, part)
		n, err = io.ReadFull(body, buffer)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
	}
	return nil
}

func (u *upload) part(ctx context.Context, number int32, content []byte) (types.CompletedPart, error) {
	sent, err := u.calls.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: u.bucket, Key: u.key, UploadId: u.id, PartNumber: &number,
		ChecksumAlgorithm: u.algorithm, ContentMD5: u.md5(content), Body: bytes.NewReader(content),
	})
	if err != nil {
		return types.CompletedPart{}, err
	}
	return types.CompletedPart{
		PartNumber: &number, ETag: sent.ETag, ChecksumCRC32: sent.ChecksumCRC32, ChecksumCRC32C: sent.ChecksumCRC32C,
		ChecksumCRC64NVME: sent.ChecksumCRC64NVME, ChecksumSHA1: sent.ChecksumSHA1, ChecksumSHA256: sent.ChecksumSHA256,
	}, nil
}

// takeBack aborts the upload, even if ctx has ended.
func (u *upload) takeBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortGrace)
	defer cancel()
	if _, err := u.calls.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: u.bucket, Key: u.key,
		UploadId: u.id}); err != nil {
		return fmt.Errorf("take back the parts that were sent (upload %s): %w", *u.id, err)
	}
	return nil
}
