package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// Left replaces a value that is left out. It is one word, so that what was redacted can be redacted again.
const Left = "(left-out)"

// Parts of patterns. Those of names match in lower case and in upper case.
const (
	// words are parts of the names of what holds secrets.
	words = `(?:secret|password|passwd|passphrase|passcode|pwd|token|credential|creds|private|cookie|` +
		`(?:access|api|account|client|encryption|signing|master|shared|license)[-_]?key|key[-_]?data)`
	// name is such a name.
	name = `(?:[a-z0-9_.-]*` + words + `[a-z0-9_.-]*|[a-z0-9_.-]*pass|(?:[a-z0-9_.-]*[_.-])?pw)`
	// flag is a flag with such a name, and -p, which most clients of databases have.
	flag = `(?:(?i:--?` + name + `)|-p)`
	// before is what comes before an argument.
	before = `(?:^|[\s"'=,\[(])`
	// next is what is between two arguments of a list, up to the quote of the second one.
	next = `\\*["']\s*,?\s*\\*["']`
	// word is an argument of a shell. A quote that is not closed is one too.
	word = `(?:\\*"[^"]*"?|\\*'[^']*'?|[^\s"';&\\]+)`
)

// secret matches the names of settings, fields and flags whose values are left out.
var secret = regexp.MustCompile(`(?i)authorization|` + words + `|pass$|(?:^|[_.-])pw$|^downloadURL$`)

// pem matches a private key in PEM form, of which there may be the beginning alone.
var pem = regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?` +
	`(-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`)

// shapes are those of secrets, wherever they are. Few commands need the patterns, so they are compiled when one does.
var shapes = all(
	`(?i)AGE-(?:SECRET-KEY|PLUGIN)-[A-Z0-9-]+`,
	`eyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){2,}`, // a JSON web token
	`(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}`,          // AWS
	`gh[pousr]_[A-Za-z0-9]{20,}`, `github_pat_[A-Za-z0-9_]{20,}`, `glpat-[A-Za-z0-9_-]{20,}`,
	`xox[a-z]-[A-Za-z0-9-]{10,}`, `AIza[A-Za-z0-9_-]{35}`, `ya29\.[A-Za-z0-9_-]+`, `[rs]k_(?:live|test)_[A-Za-z0-9]+`,
	`hv[sbr]\.[A-Za-z0-9_-]{20,}`, `npm_[A-Za-z0-9]{36}`, `dckr_pat_[A-Za-z0-9_-]+`, `dop_v1_[a-f0-9]{64}`,
	`\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id?|d))\$[A-Za-z0-9./$=,+*-]+`, // the hash of a password
	// a private key in PEM form, in base64
	`LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,40}?(?:UFJJVkFUR|BSSVZBVE|QUklWQVRF)[A-Za-z0-9+/=]*`+
		`(?:(?:\s|\\n)+[A-Za-z0-9+/]{20,}=*)*`,
)

func all(patterns ...string) func() []*regexp.Regexp {
	return sync.OnceValue(func() (matchers []*regexp.Regexp) {
		for _, pattern := range patterns {
			matchers = append(matchers, regexp.MustCompile(pattern))
		}
		return matchers
	})
}

// leaks are secrets behind what says so. What the groups have stays.
var leaks = all(
	// credentials in a URL, and in the address of a database
	`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"']+(@)`,
	`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"'@:]*:(?:[0-9]*[^0-9/?#\s"'@][^/?#\s"'@]*)?[/?#][^\s"']*(@)`,
	`([A-Za-z0-9_.-]+:)[^\s"']+(@(?:tcp|unix)\()`,
	// a signed URL
	`(?i)([?&][^=&\s"']*(?:sig|signature|key|`+words+`)[^=&\s"']*=)[^&\s"'\\]+`,
	// headers
	`(?i)((?:(?:proxy-)?authorization\\*["']?\s*[:=]|(?:(?:set-)?cookie|private-token|`+
		`x-[a-z-]*(?:auth|key|`+words+`)[a-z-]*)\\*["']?\s*:)`+
		`\s*\[?\\*["']?(?:(?:bearer|basic|digest|token)\s+)?)[^"'\\\r\n]+`,
	`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]+`,
	`(\b(?i:basic)\s+)[a-z]*[A-Z0-9+/][A-Za-z0-9+/]{6,}={0,2}`,
	// NAME=VALUE
	`(?i)(`+name+`\\*["']?\s*=\s*)`+word,
	// JSON, and JSON in a string
	`(?i)("`+name+`"\s*:\s*")(?:[^"\\]|\\.)+`,
	`(?i)(\\*["']`+name+`\\*["']\s*:\s*\\*["'])[^"'\\]+`,
	`(?i)(\\*["']`+name+`\\*["']\s*:\s*)[0-9][^\s,}\]]*`,
	// YAML
	`(?im)(^[ \t-]*(?:[a-z0-9_.-]*(?:password|passwd|passphrase)|pass|`+
		`[a-z0-9_.-]*(?:access|api|account|secret|client|encryption|private)[-_]?(?:key|token))[ \t]*:[ \t]+)\S.*`,
	// --NAME VALUE, in a shell and in a list, and -pVALUE
	`(`+before+flag+`\s+)(?:\\*"[^"]*"?|\\*'[^']*'?|[^\s"'-][^\s"']*)`,
	`(`+before+flag+next+`)[^"'\\]+`,
	`(`+before+`-p)(?:[^\s"';&\\,][^\s"';&\\]*|\\*["'][^\s"',\\\])}][^"']*["']?)`,
	// -u NAME:VALUE
	`(`+before+user+`(?:\s+|=|`+next+`)?\\*["']?[^\s:"'\\,]*:)`+
		`(?:[^\s"'\\,/]|/[^/\s"'\\])[^\s"'\\,\]]*`,
	`(`+before+user+`(?:\s*|=|\\*["']\s*,\s*)\\*["'][^\s:"'\\]*:)[^"'\\]+`,
	// flags of single programs
	`(`+programs+`(?:\s+|`+next+`)?)`+word,
	`(`+before+`-U\s*[^\s%"']+%)[^\s"']+`, // smbclient
	`(\bpass:)[^\s"']+`,                   // openssl
	`(--from-literal(?:\s+|=|`+next+`)[^\s="']+=)[^\s"']+`,
	// SQL, and .netrc
	`(?i)(\b(?:identified\s+by|password)\s+\\*["'])[^"'\\]+`,
	`(?i)(\blogin\s+\S+\s+password\s+)[^\s"']+`,
)

const (
	// user is a flag for a user and a password.
	user = `(?:-u|-U|--(?:proxy-|http-|ftp-)?user)`
	// programs are programs with a flag for a secret that has no name.
	programs = `(?:(?:redis|valkey|keydb)-cli\b[^\n;|&]*?[\s"',]-a|\bldap[a-z]+\b[^\n;|&]*?[\s"',]-w|` +
		`\b(?:sqlcmd|bcp|isql|tsql)\b[^\n;|&]*?[\s"',]-P)`
)

// mostWhole is the size up to which a text is searched as a whole, in bytes. A longer one is searched line by line.
const mostWhole = 64 << 10

// Text leaves out what looks like a secret within a text: a line of a log, an argument, a message.
func Text(text string) string {
	text = pem.ReplaceAllString(text, "${1}"+Left+"${2}")
	if len(text) <= mostWhole {
		return leave(text)
	}
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		out.WriteString(leave(line))
	}
	return out.String()
}

// mostOverlaps bounds how often a text is searched from within a match.
const mostOverlaps = 100

// leave leaves out what any of the patterns matches, in the text as it was: what one of them leaves out may be what
// says that a secret follows.
func leave(text string) string {
	var spans [][2]int
	for _, shape := range shapes() {
		for _, at := range shape.FindAllStringIndex(text, -1) {
			spans = append(spans, [2]int{at[0], at[1]})
		}
	}
	for _, leak := range leaks() {
		for from, n := 0, 0; ; n++ {
			at := leak.FindStringSubmatchIndex(text[from:])
			if at == nil {
				break
			}
			begin, end := from+at[3], from+at[1]
			if len(at) > 4 {
				end = from + at[4]
			}
			spans = append(spans, [2]int{begin, end})
			if from = begin - 1; n >= mostOverlaps { // what says so has two bytes at least
				from = end
			}
		}
	}
	slices.SortFunc(spans, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	var out strings.Builder
	done := 0 // what is before it was written
	for i, span := range spans {
		if i == 0 || span[0] > done {
			out.WriteString(text[done:span[0]] + Left)
		}
		done = max(done, span[1])
	}
	out.WriteString(text[done:])
	return out.String()
}

// Tree removes likely secrets from decoded JSON: values by the names of their fields, the values of variables and of
// headers, arguments by the flags before them, and parts of texts, which may be JSON or YAML themselves. It returns the
// rest.
func Tree(value any) any {
	switch v := value.(type) {
	case map[string]any:
		label, _ := v["name"].(string)
		out := make(map[string]any, len(v))
		for key, member := range v {
			switch {
			case v["kind"] == "Secret" && (key == "data" || key == "stringData"):
				member = hide(member)
			case isSecret(key), key == "value" && isSecret(label):
				member = bare(member)
			case key == "env" || key == "httpHeaders":
				member = values(member)
			default:
				member = Tree(member)
			}
			out[Text(key)] = member
		}
		return out
	case []any:
		given := slices.Clone(v)
		for i, element := range given {
			if text, ok := element.(string); ok {
				v[i] = argument(given[:i], text)
			} else {
				v[i] = Tree(element)
			}
		}
	case string:
		return document(v)
	}
	return value
}

func isSecret(name string) bool { return secret.MatchString(name) && name != "secretName" }

// bare returns what stays of a value whose name is that of a secret: objects, with what they refer to, and what is true
// or false.
func bare(value any) any {
	switch v := value.(type) {
	case string, float64, json.Number:
		return hide(v)
	case []any:
		for i, element := range v {
			v[i] = bare(element)
		}
		return v
	default:
		return Tree(value)
	}
}

// values returns a list of variables or headers without their values, whatever their names are.
func values(list any) any {
	all, _ := list.([]any)
	for _, one := range all {
		if object, ok := one.(map[string]any); ok && object["value"] != nil {
			object["value"] = hide(object["value"])
		}
	}
	return Tree(list)
}

// mostArguments is how many arguments before another one are looked at.
const mostArguments = 50

// argument returns what stays of a text in a list that has others before it.
func argument(others []any, text string) any {
	var line []string
	for _, other := range others[max(0, len(others)-mostArguments):] {
		if one, ok := other.(string); ok {
			line = append(line, one)
		}
	}
	if text == "" || len(line) == 0 {
		return document(text)
	}
	last := line[len(line)-1]
	if isFlag.MatchString(last) || isProgram.MatchString(strings.Join(line, " ")) {
		return Left
	}
	at := -1 // what is before it stays
	switch {
	case isUser.MatchString(last):
		at = strings.IndexAny(text, ":%")
	case last == "--from-literal":
		at = strings.Index(text, "=")
	}
	if at >= 0 && !strings.HasPrefix(text[at+1:], "//") {
		return Text(text[:at]) + text[at:at+1] + Left
	}
	return document(text)
}

var (
	isFlag    = regexp.MustCompile(`^` + flag + `$`)
	isUser    = regexp.MustCompile(`^` + user + `$`)
	isProgram = regexp.MustCompile(programs + `$`)
)

// mostDocument is the size up to which a text is read as a document, in bytes.
const mostDocument = 1 << 20

// document is Text for a text that may be a document.
func document(text string) string {
	text = pem.ReplaceAllString(text, "${1}"+Left+"${2}")
	var value any
	trimmed := strings.TrimSpace(text)
	switch {
	case len(text) > mostDocument:
	case strings.HasPrefix(trimmed, "{"), strings.HasPrefix(trimmed, "["):
		if json.Unmarshal([]byte(text), &value) == nil {
			text = encode(value)
		}
	case strings.Contains(trimmed, "\n") && yaml.Unmarshal([]byte(text), &value) == nil:
		if _, ok := value.(map[string]any); ok {
			if left, err := yaml.Marshal(Tree(value)); err == nil {
				text = string(left)
			}
		}
	}
	return Text(text)
}

func encode(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(Tree(value)) // it was decoded
	return strings.TrimSuffix(out.String(), "\n")
}
