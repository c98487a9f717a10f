package rawjson

import "bytes"

// skipRight is skipValue for what is known to be right, which it does not check. Where it is not, the answer is any
// position, or -1.
func skipRight(raw []byte, at int) int {
	if at >= len(raw) {
		return -1
	}
	switch raw[at] {
	case '"':
		return skipRightString(raw, at)
	case '{', '[':
		for depth := 0; at < len(raw); {
			switch raw[at] {
			case '"':
				if at = skipRightString(raw, at); at < 0 {
					return -1
				}
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
		return -1
	default: // a number, true, false or null
		for at < len(raw) && raw[at] != ',' && raw[at] != '}' && raw[at] != ']' && raw[at] > ' ' {
			at++
		}
		return at
	}
}

// skipRightString goes from quote to quote; one with an odd number of backslashes before it is not the end.
func skipRightString(raw []byte, at int) int {
	from := at + 1
	for at = from; ; at++ {
		next := bytes.IndexByte(raw[at:], '"')
		if next < 0 {
			return -1
		}
		at += next
		behind := at
		for behind > from && raw[behind-1] == '\\' {
			behind--
		}
		if (at-behind)%2 == 0 {
			return at + 1
		}
	}
}
