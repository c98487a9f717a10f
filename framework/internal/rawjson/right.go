package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// FromBehind visits the members of the object that raw is, the last one first. It answers whether visit ended it, so that
// what was looked for is found. raw is known to be right JSON, as what comes from the server is; it is not checked, and
// what is visited in something else is of no use.
func FromBehind(raw []byte, visit Visit) bool {
	end := trim(raw, len(raw))
	if end == 0 || raw[end-1] != '}' {
		return false
	}
	var key []byte // of the member that ends at end
	end--
	colon := -1 // behind key
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

// Around is the member of the object that raw is whose value holds raw[begin:end]: its name, and its value at raw[from:to].
// The name is nil when there is none. raw is known to be right JSON, as in FromBehind.
func Around(raw []byte, begin, end int) (name []byte, from, to int) {
	if begin < len(raw)/2 {
		Members(raw, skipSpace(raw, 0), func(member []byte, at, behind int) bool {
			if at <= begin && end <= behind {
				name, from, to = member, at, behind
			}
			return behind <= begin
		})
	} else {
		FromBehind(raw, func(member []byte, at, behind int) bool {
			if at <= begin && end <= behind {
				name, from, to = member, at, behind
			}
			return at > begin
		})
	}
	return name, from, to
}

// trim is end without the space before it.
func trim(raw []byte, end int) int {
	for end > 0 && (raw[end-1] == ' ' || raw[end-1] == '\n' || raw[end-1] == '\t' || raw[end-1] == '\r') {
		end--
	}
	return end
}

// opening is where the string begins whose last quote stands at at, or -1. A quote with an odd number of backslashes before
// it is a part of the string.
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

// quoteBefore is where the last quote before at stands, or -1.
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
