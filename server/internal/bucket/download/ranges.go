package download

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// byteRange returns the range in a header. HTTP allows to ignore others, such as several at once.
func byteRange(header string) (asked hostapi.Range, ok bool) {
	spec, isBytes := strings.CutPrefix(header, "bytes=")
	first, last, cut := strings.Cut(spec, "-")
	if !isBytes || !cut {
		return asked, false
	}
	if first == "" {
		length, err := strconv.ParseInt(last, 10, 64)
		return hostapi.Range{Offset: -length}, err == nil && length > 0
	}
	offset, err := strconv.ParseInt(first, 10, 64)
	if err != nil || offset < 0 {
		return asked, false
	}
	if last == "" {
		return hostapi.Range{Offset: offset}, true
	}
	end, err := strconv.ParseInt(last, 10, 64)
	return hostapi.Range{Offset: offset, Length: end - offset + 1}, err == nil && end >= offset && end-offset+1 > 0
}

// sendPart answers with a range of a file. An error means that nothing or a part of it was sent.
func sendPart(w http.ResponseWriter, asked hostapi.Range, part *hostapi.Part, body io.Reader) error {
	offset, length := asked.In(part.Size)
	if part.Offset != offset {
		return fmt.Errorf("the object store sent the range from %d on, want that from %d on", part.Offset, offset)
	}
	if length == 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", part.Size))
		http.Error(w, "the file has no such range", http.StatusRequestedRangeNotSatisfiable)
		return nil
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, offset+length-1, part.Size))
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	w.WriteHeader(http.StatusPartialContent)
	_, err := io.CopyN(w, body, length)
	return err
}
