package download

import (
	"cmp"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// scheme is the scheme of a "URL" from which nothing can be downloaded and whose rest is the reason. Every client of
// Velero stops waiting as soon as there is a URL, and shows a URL that it cannot use. A DownloadRequest has no field
// for a message.
const scheme = "unavailable:"

// noFile is the reason if the bucket does not hold the file.
const noFile = "the file does not exist in object storage"

// maxReason is the maximum length of a reason in bytes.
const maxReason = 2048

// Unavailable returns the text that replaces the URL of a DownloadRequest if there is none.
func Unavailable(reason string) string {
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, reason)
	return scheme + " " + shorten.Text(cmp.Or(printable, "no reason is known"), maxReason)
}

// NoFile returns the text that replaces the URL of a DownloadRequest if the bucket does not have the file, with the
// reason if it is known.
func NoFile(why string) string {
	if why == "" {
		return Unavailable(noFile)
	}
	return Unavailable(noFile + ": " + why)
}

// Reason returns why a DownloadRequest has no URL. missing is set if the bucket does not hold the file. ok is false if
// address is a URL.
func Reason(address string) (reason string, missing, ok bool) {
	reason, ok = strings.CutPrefix(address, scheme)
	reason = strings.TrimSpace(reason)
	return reason, strings.HasPrefix(reason, noFile), ok
}

// FileOf returns the file that a DownloadRequest asks for.
func FileOf(request *velerov1.DownloadRequest) store.File {
	return store.File{DownloadTarget: request.Spec.Target, Artifact: request.Annotations[velerov1.FileAnnotation]}
}
