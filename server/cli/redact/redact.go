package redact

import (
	"regexp"
	"strings"
)

// Left replaces a value that is left out. It is one word, so that redacting twice has no effect.
const Left = "(left-out)"

// words are parts of the names of what holds secrets.
const words = `(?:secret|password|passwd|passphrase|token|credential|private|access[-_]?key|api[-_]?key|account[-_]?key)`

// secret matches the names of settings, fields and flags whose values are left out.
var secret = regexp.MustCompile(`(?i)authorization|` + words)

// leaks are what looks like a secret within a text. What the groups have stays.
var leaks = []*regexp.Regexp{
	regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|$)`),
	// credentials in a URL
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"']+(@)`),
	regexp.MustCompile(`(?i)([?&][^=&\s"']*(?:sig|signature|key|` + words + `)[^=&\s"']*=)[^&\s"'\\]+`), // a signed URL
	regexp.MustCompile(`(?i)((?:authorization|proxy-authorization)\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic)\s+)?)[^\s"'\\,]+`),
	regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]+`),
	// a JSON web token
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
	// NAME=VALUE
	regexp.MustCompile(`(?i)([A-Za-z0-9_.-]*` + words + `[A-Za-z0-9_.-]*\\?["']?\s*=\s*)(?:"[^"]*"|'[^']*'|[^\s"',;&]+)`),
	// JSON
	regexp.MustCompile(`(?i)(\\?["'][A-Za-z0-9_.-]*` + words + `[A-Za-z0-9_.-]*\\?["']\s*:\s*\\?["'])[^"'\\]+`),
	// --NAME VALUE
	regexp.MustCompile(`(?i)((?:^|\s)--?[a-z0-9-]*` + words + `[a-z0-9-]*\s+)(?:"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)`),
}

// Text leaves out what looks like a secret within a text: a line of a log, an argument, a message.
func Text(text string) string {
	for _, leak := range leaks {
		text = leak.ReplaceAllString(text, "${1}"+Left+"${2}")
	}
	return text
}

// Tree removes likely secrets from decoded JSON: values by the names of their fields, arguments by the flags
// before them, and parts of texts. It returns the rest.
func Tree(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if text, ok := member.(string); ok && text != "" && secret.MatchString(key) && key != "secretName" {
				v[key] = Left
				continue
			}
			v[key] = Tree(member)
		}
	case []any:
		for i, element := range v {
			flag := ""
			if i > 0 {
				flag, _ = v[i-1].(string)
			}
			if _, ok := element.(string); ok && strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") &&
				secret.MatchString(flag) {
				v[i] = Left
				continue
			}
			v[i] = Tree(element)
		}
	case string:
		return Text(v)
	}
	return value
}
