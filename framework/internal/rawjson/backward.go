package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// Backward visits the members of the object raw, the last one first, and reports whether visit returned false. raw must
// be valid JSON, which Backward does not check; for other input the visited values are undefined.
func Backward(raw []byte, visit Visit) bool {
	end := trim(raw, len(raw))
	if end == 0 || raw[end-1] != '}' {
		return false
	}
	var key []byte // of the member whose value ends at end
	end--
	colon := -1 // position of the colon after key
	for at, depth := end-1, 0; at >= 0; at-- {
		switch c := raw[at]; c {
		case '"':
			closing := at
			if at = opening(raw, at); at < 0 {
				return false
			}
			if depth == 0 && colon >= 0 {
				key = raw[at : closing+1]
			}
		case '}', ']':
			depth++
		case ':':
			if depth == 0 {
				colon = at
			}
		case '{', '[', ',':
			if depth > 0 {
				if c != ',' {
					depth--
				}
				continue
			}
			if key != nil {
				if from, to := skipSpace(raw, colon+1), trim(raw, end); from < to && !visit(memberName(key), from, to) {
					return true
				}
			}
			if c != ',' {
				return false // the beginning
			}
			key, end, colon = nil, at, -1
		}
	}
	return false
}

// Around returns the member of the object raw whose value contains raw[begin:end]: its name, and its value
// raw[from:to]. The name is nil if there is no such member. raw must be valid JSON, as for Backward.
func Around(raw []byte, begin, end int) (name []byte, from, to int) {
	if begin < len(raw)/2 {
		Members(raw, skipSpace(raw, 0), func(member []byte, at, behind int) bool {
			if at <= begin && end <= behind {
				name, from, to = member, at, behind
			}
			return behind <= begin
		})
	} else {
		Backward(raw, func(member []byte, at, behind int) bool {
			if at <= begin && end <= behind {
				name, from, to = member, at, behind
			}
			return at > begin
		})
	}
	return name, from, to
}

// trim returns end without the space before it.
func trim(raw []byte, end int) int {
	for end > 0 && (raw[end-1] == ' ' || raw[end-1] == '\n' || raw[end-1] == '\t' || raw[end-1] == '\r') {
		end--
	}
	return end
}

// opening returns the position of the first quote of the string whose last quote is at raw[at], or -1. A quote after an
// odd number of backslashes is part of the string.
func opening(raw []byte, at int) int {
	for {
		if at = quoteBefore(raw, at); at < 0 {
			return -1
		}
		behind := at
		for behind > 0 && raw[behind-1] == '\\' {
			behind--
		}
		if (at-behind)%2 == 0 {
			return at
		}
	}
}

// quoteBefore returns the position of the last quote before raw[at], or -1.
func quoteBefore(raw []byte, at int) int {
	const ones, lows = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
	for ; at >= 8; at -= 8 {
		eight := binary.LittleEndian.Uint64(raw[at-8:]) ^ ones*'"'
		if quotes := ^((eight&lows + lows) | eight | lows); quotes != 0 {
			return at - 1 - bits.LeadingZeros64(quotes)/8
		}
	}
	for at--; at >= 0 && raw[at] != '"'; at-- {
	}
	return at
}
