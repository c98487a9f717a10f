package serverreport

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
)

const (
	// RestoringOfAnnotation is set by the author of a ServerStatusRequest to a RestoreQuestion as JSON. The answer then
	// has a RestoringAnnotation, if the restore is at work.
	RestoringOfAnnotation = "cleat.dev/restoring-of"
	// RestoringAnnotation holds Restoring in an answered ServerStatusRequest: JSON, compressed with gzip, in base64.
	RestoringAnnotation = "cleat.dev/restoring"
)

// Limits of a report.
const (
	MaxRestoring = 500 // items that are left
	MaxFound     = 6   // items with a name
	maxWaves     = 500
	// maxRestoringText bounds the report when it is not compressed any more.
	maxRestoringText = 16 << 20
)

// RestoreQuestion asks about a restore that is at work.
type RestoreQuestion struct {
	Restore string `json:"restore"`
	// Item is an item, as "RESOURCE/NAMESPACE/NAME" or "RESOURCE/NAME".
	Item string `json:"item,omitempty"`
	// Left is the maximum number of items that have not ended; 0 asks for none.
	Left int `json:"left,omitempty"`
}

// Encode returns the question as JSON for the annotation.
func (q RestoreQuestion) Encode() string {
	data, err := json.Marshal(q)
	if err != nil { // strings and numbers can always be encoded
		panic(err)
	}
	return string(data)
}

// DecodeRestoreQuestion parses the annotation.
func DecodeRestoreQuestion(text string) (q RestoreQuestion, err error) {
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return q, fmt.Errorf("annotation %s: %w", RestoringOfAnnotation, err)
	}
	return q, nil
}

// Restoring is the state of a restore that is at work.
type Restoring struct {
	Restore string         `json:"restore"`
	Plan    *outcome.Plan  `json:"plan,omitempty"` // nil before the order is planned
	Items   []outcome.Item `json:"items,omitempty"`
	More    int            `json:"more,omitempty"` // items that are left and not in Items
}

// Encode returns the report for the annotation. It leaves items out that the annotation has no room for.
func (r *Restoring) Encode() (string, error) {
	cut := *r
	if cut.Plan != nil && len(cut.Plan.Waves) > maxWaves {
		plan := *cut.Plan
		plan.Waves = plan.Waves[:maxWaves]
		cut.Plan = &plan
	}
	for {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		if err := json.NewEncoder(zip).Encode(cut); err != nil {
			return "", fmt.Errorf("write the state of a restore as JSON: %w", err)
		}
		if err := zip.Close(); err != nil {
			return "", fmt.Errorf("compress the state of a restore: %w", err)
		}
		text := base64.StdEncoding.EncodeToString(out.Bytes())
		if len(text) <= maxAnnotation || len(cut.Items) == 0 {
			return text, nil
		}
		half := len(cut.Items) / 2
		cut.More += len(cut.Items) - half
		cut.Items = cut.Items[:half]
	}
}

// DecodeRestoring parses the annotation.
func DecodeRestoring(text string) (*Restoring, error) {
	plain, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	r := &Restoring{}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(plain, maxRestoringText)).Decode(r)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer is not the state of a restore: %w", RestoringAnnotation,
			err)
	}
	return r, nil
}
