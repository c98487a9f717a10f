package spool

const (
	// lookEvery is how many bytes are written at most before the free space is looked at again.
	lookEvery = 64 << 20
	// reserve is what stays free of a disk with enough space, in bytes. It bounds decompression bombs; a ratio of sizes
	// would not, because similar objects of a real backup compress to a thousandth.
	reserve = 256 << 20
	// reserveShare is the part of the free space that stays free, if that is less than reserve: one in so many.
	reserveShare = 4
)

// space decides how much of a disk a file may take. Of a disk that is nearly full from the start it leaves a part, so
// that a small file has a place there.
type space struct {
	ask func() (int64, bool) // the free bytes of the disk, and whether they are known

	stays   int64 // bytes that stay free, once asked
	asked   bool
	checked int64 // bytes that may be written before the next look
}

// enough reports whether more may be written after so many bytes, and how many are free if not.
func (s *space) enough(written int64) (free int64, enough bool) {
	if written < s.checked {
		return 0, true
	}
	free, known := s.ask()
	if !known {
		s.checked = written + lookEvery
		return 0, true
	}
	if !s.asked {
		s.asked, s.stays = true, min(reserve, free/reserveShare)
	}
	next := min(lookEvery, (free-s.stays)/2) //nolint:mnd // what is written is not flushed yet
	s.checked = written + max(next, 1)
	return free, next > 0
}
