package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// signV4 signs an S3 request that has the given body and no query, with AWS
// Signature Version 4.
func signV4(r *http.Request, body []byte, accessKey, secretKey, region string, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	scope := strings.Join([]string{stamp[:8], region, "s3", "aws4_request"}, "/")
	sum := sha256.Sum256(body)
	bodySum := hex.EncodeToString(sum[:])
	r.Header.Set("x-amz-date", stamp)
	r.Header.Set("x-amz-content-sha256", bodySum)

	const signed = "host;x-amz-content-sha256;x-amz-date"
	canonical := sha256.Sum256([]byte(strings.Join([]string{
		r.Method, r.URL.EscapedPath(), "",
		"host:" + r.URL.Host, "x-amz-content-sha256:" + bodySum, "x-amz-date:" + stamp, "",
		signed, bodySum,
	}, "\n")))

	key := []byte("AWS4" + secretKey)
	for part := range strings.SplitSeq(scope, "/") {
		key = hmacSHA256(key, part)
	}
	signature := hmacSHA256(key, strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hex.EncodeToString(canonical[:])},
		"\n"))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/"+scope+
		", SignedHeaders="+signed+", Signature="+hex.EncodeToString(signature))
}

func hmacSHA256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
