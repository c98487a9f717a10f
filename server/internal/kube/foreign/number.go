package foreign

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// CheckNumber returns an error for a number in JSON that the API server cannot represent, or only as another one: an
// integer of more than 64 bits, or a number whose exponent is too large.
func CheckNumber(text []byte) error {
	const fits = 18 // digits, and a sign, of any integer that has so few
	isInteger := !bytes.ContainsAny(text, ".eE")
	var err error
	switch {
	case isInteger && len(text) <= fits:
	case isInteger:
		_, err = strconv.ParseInt(string(text), 10, 64)
	default:
		_, err = strconv.ParseFloat(string(text), 64)
	}
	if err != nil {
		return fmt.Errorf("number %s does not fit into 64 bits", shorten.Text(string(text), 40))
	}
	return nil
}
