package location

import (
	"regexp"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// maxMessage is the maximum length of status.message in bytes.
const maxMessage = 2048

// statusMessage converts an error message for a status, which everybody in the namespace may be able to read. It
// removes the signatures of URLs, reduces the HTTP responses of several lines that some plugins return (such as
// Azure's) to the first line and the error code, and limits the length.
func statusMessage(message string) string {
	message = signatures.ReplaceAllString(message, "${1}=REDACTED")
	if first, rest, more := strings.Cut(message, "\n"); more {
		message = strings.TrimSpace(first)
		if code := errorCode.FindString(rest); code != "" && !strings.Contains(first, code) {
			message += " (" + code + ")"
		}
	}
	return shorten.Text(message, maxMessage-3)
}

var (
	// signatures matches the query parameters of URLs that Azure and Amazon sign.
	signatures = regexp.MustCompile(`([?&](?:sig|se|st|sp|spr|sv|sr|sip|srt|ss|X-Amz-[A-Za-z-]+))=[^&\s<>"]+`)
	errorCode  = regexp.MustCompile(`ERROR CODE: *\w+`)
)
