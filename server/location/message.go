package location

import (
	"regexp"
	"strings"
)

// maxMessage bounds status.message, in bytes.
const maxMessage = 2048

// presentable makes an error fit for a status that everybody in the namespace may read: signatures in URLs
// are taken out, the dumps of HTTP responses that some plugins give (Azure's, many lines) are cut down to
// the first line and the error code, and it has a bound.
func presentable(message string) string {
	message = signatures.ReplaceAllString(message, "${1}=REDACTED")
	if first, rest, more := strings.Cut(message, "\n"); more {
		message = strings.TrimSpace(first)
		if code := errorCode.FindString(rest); code != "" && !strings.Contains(first, code) {
			message += " (" + code + ")"
		}
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	return message
}

var (
	// signatures are the query parameters of signed URLs: Azure's and Amazon's.
	signatures = regexp.MustCompile(`([?&](?:sig|se|st|sp|spr|sv|sr|sip|srt|ss|X-Amz-[A-Za-z-]+))=[^&\s<>"]+`)
	errorCode  = regexp.MustCompile(`ERROR CODE: *\w+`)
)
