package reply

import (
	"encoding/json"
	"errors"
)

var errNoObject = errors.New("is no JSON object")

// eachMember calls visit for each member of the object that raw is, in order, with the member's value as it
// stands. raw must be valid JSON, which is what makes the walk this simple; names are compared as they are,
// which is where encoding/json into a struct is too generous.
func eachMember(raw []byte, visit func(key string, value []byte)) error {
	at := skipSpace(raw, 0)
	if raw[at] != '{' {
		return errNoObject
	}
	at = skipSpace(raw, at+1)
	for raw[at] != '}' {
		end := skipString(raw, at)
		key := string(raw[at+1 : end-1])
		if unescaped := ""; json.Unmarshal(raw[at:end], &unescaped) == nil {
			key = unescaped
		}
		at = skipSpace(raw, end)  // the colon
		at = skipSpace(raw, at+1) // the value
		end = skipValue(raw, at)  // behind it
		visit(key, raw[at:end])
		at = skipSpace(raw, end)
		if raw[at] == ',' {
			at = skipSpace(raw, at+1)
		}
	}
	return nil
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r') {
		at++
	}
	return at
}

// skipString is the position behind the string that starts at at.
func skipString(raw []byte, at int) int {
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// skipValue is the position behind the value that starts at at.
func skipValue(raw []byte, at int) int {
	switch raw[at] {
	case '"':
		return skipString(raw, at)
	case '{', '[':
		for depth := 0; ; {
			switch raw[at] {
			case '"':
				at = skipString(raw, at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			at++
			if depth == 0 {
				return at
			}
		}
	default: // a number, true, false or null
		for at < len(raw) && raw[at] != ',' && raw[at] != '}' && raw[at] != ']' && raw[at] > ' ' {
			at++
		}
		return at
	}
}
