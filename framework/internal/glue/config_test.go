package glue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecodeStrictRefusesUnknownKeys(t *testing.T) {
	t.Parallel()
	type config struct {
		Freeze string `json:"freeze"`
		Teams  map[string]int
	}
	for raw, test := range map[string]struct {
		want    config
		refused string
	}{
		"":                                    {config{}, ""},
		"{}":                                  {config{}, ""},
		"null":                                {config{}, ""},
		`{"freeze":"sunday","teams":{"a":1}}`: {config{Freeze: "sunday", Teams: map[string]int{"a": 1}}, ""},
		`{"frieze":"sunday"}`:                 {config{}, `unknown key "frieze"`},
		`{"freeze":5}`:                        {config{}, `key "freeze": want a string, got number`},
		`{"teams":{"a":"x"}}`:                 {config{}, `key "Teams": want a whole number in the range of int, got string`},
		`{"teams":[]}`:                        {config{}, `key "Teams": want an object, got array`},
		`{"freeze":"x"}]`:                     {config{}, "there is more after its end"},
		`{"freeze":"x"} {}`:                   {config{}, "there is more after its end"},
		`[]`:                                  {config{}, "want an object, got array"},
		`{`:                                   {config{}, "it ends too early"},
	} {
		got, err := decodeStrict[config]([]byte(raw))
		require.Equal(t, test.want, got, raw)
		if test.refused == "" {
			require.NoError(t, err, raw)
		} else {
			require.ErrorContains(t, err, test.refused, raw)
		}
	}
}

func FuzzDecodeStrictReturnsAllOrNothing(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte(`{"a":1}{"a":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := decodeStrict[struct{ A int }](raw)
		if err != nil {
			require.Zero(t, got)
		}
	})
}

// opening is a configuration that uses all features of WithConfig.
type opening struct {
	Zone  string            `json:"zone,omitempty" jsonschema:"In which the hours are."`
	Every metav1.Duration   `json:"every"`
	Size  int               `json:"size,omitempty"`
	Deep  bool              `json:"deep,omitempty"`
	Ratio float64           `json:"ratio,omitempty"`
	Hours []openHours       `json:"hours,omitempty"`
	Quota map[string]int    `json:"quota,omitempty"`
	Limit struct{ Max int } `json:"limit,omitzero"`
}

type openHours struct {
	From string `json:"from"`
}

func (o *opening) Validate() error {
	var faults []error
	if o.Zone == "Mars/Base" {
		faults = append(faults, InvalidKey("zone", errors.New("there is no such zone")))
	}
	for i, hours := range o.Hours {
		if hours.From == "noon" {
			faults = append(faults, InvalidKey(fmt.Sprintf("hours[%d].from", i), errors.New("want a time of day")))
		}
	}
	return errors.Join(faults...)
}

func newOpening() *ConfigType {
	return NewConfigType(opening{Zone: "UTC", Every: metav1.Duration{Duration: time.Minute}, Limit: struct{ Max int }{5}},
		"")
}

func TestConfigIsDecodedWithDefaults(t *testing.T) {
	t.Parallel()
	config := newOpening()
	require.NoError(t, config.err)
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"properties":{
		"zone":{"type":"string","description":"In which the hours are.","default":"UTC"},
		"every":{"type":"string","pattern":"^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$","default":"1m0s"},
		"size":{"type":"integer"},"deep":{"type":"boolean"},"ratio":{"type":"number"},
		"hours":{"type":["null","array"],"items":{"type":"object","required":["from"],"properties":{"from":{"type":"string"}},"additionalProperties":false}},
		"quota":{"type":"object","additionalProperties":{"type":"integer"}},
		"limit":{"type":"object","properties":{"Max":{"type":"integer","default":5}},"additionalProperties":false}
	}}`, string(config.Schema()))
	for raw, want := range map[string]opening{
		"":     {Zone: "UTC", Every: metav1.Duration{Duration: time.Minute}, Limit: struct{ Max int }{5}},
		"null": {Zone: "UTC", Every: metav1.Duration{Duration: time.Minute}, Limit: struct{ Max int }{5}},
		`{"zone":"CET","size":3}`: {Zone: "CET", Size: 3, Every: metav1.Duration{Duration: time.Minute},
			Limit: struct{ Max int }{5}},
		`{"zone":"","limit":{}}`: {Every: metav1.Duration{Duration: time.Minute}, Limit: struct{ Max int }{5}},
		`{"limit":{"Max":7}}`:    {Zone: "UTC", Every: metav1.Duration{Duration: time.Minute}, Limit: struct{ Max int }{7}},
		`{"every":"1h","deep":true}`: {Zone: "UTC", Every: metav1.Duration{Duration: time.Hour}, Deep: true,
			Limit: struct{ Max int }{5}},
	} {
		got, err := config.decode([]byte(raw))
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
}

func TestErrorOfInvalidConfigNamesKey(t *testing.T) {
	t.Parallel()
	config := newOpening()
	for raw, want := range map[string]string{
		`{"zonne":"CET"}`:                   `config: unknown key "zonne", want one of deep, every, hours, limit, quota, ratio, size, zone`,
		`{"size":"3"}`:                      `config: key "size": want a whole number in the range of int, got string`,
		`{"every":"5"}`:                     `config: time: missing unit in duration "5"`,
		`{"hours":[{}]}`:                    `missing properties: ["from"]`,
		`{"hours":[{"from":"8","to":"9"}]}`: `config: unknown key "to"`,
		`{"zone":"Mars/Base","hours":[{"from":"8"},{"from":"noon"}]}`: `config: zone: there is no such zone; hours[1].from: want a time of day`,
		`[]`: `config: want an object, got array`,
	} {
		_, err := config.decode([]byte(raw))
		require.ErrorContains(t, err, want, raw)
		require.ErrorIs(t, err, ErrInvalid)
	}
	var none *ConfigType
	_, err := none.decode([]byte(`{"a":1}`))
	require.EqualError(t, err, `config: unknown key "a", this plugin takes no configuration`)
	for _, raw := range []string{"", "null", "{}"} {
		got, err := none.decode([]byte(raw))
		require.NoError(t, err)
		require.Nil(t, got)
	}
}

func TestLocationConfigIsConvertedFromStrings(t *testing.T) {
	t.Parallel()
	config := newOpening()
	raw, err := config.fromStrings(map[string]string{
		"zone": "CET", "size": "5", "deep": "true", "ratio": "0.5", "hours": `[{"from":"8"}]`, "quota": `{"a":1}`,
		"bucket": "b", "limit": "",
	}, []string{"bucket"})
	require.NoError(t, err)
	require.JSONEq(t, `{"zone":"CET","size":5,"deep":true,"ratio":0.5,"hours":[{"from":"8"}],"quota":{"a":1}}`,
		string(raw))
	for key, test := range map[string]struct{ value, want string }{
		"deep":  {"yes", `config: deep: "yes", want "true" or "false"`},
		"size":  {"x", `config: size: "x", want a whole number`},
		"ratio": {"x", `config: ratio: "x", want a number`},
		"hours": {"x", `config: hours: "x", want JSON of an array`},
	} {
		_, err := config.fromStrings(map[string]string{key: test.value}, nil)
		require.EqualError(t, err, test.want)
	}
	raw, err = NewConfigType(map[string]string{}, "").fromStrings(map[string]string{"bucket": "b"}, []string{"bucket"})
	require.NoError(t, err)
	require.JSONEq(t, `{"bucket":"b"}`, string(raw), "a map takes all keys")
	raw, err = (*ConfigType)(nil).fromStrings(map[string]string{"bucket": "b", "x": "y"}, []string{"bucket"})
	require.NoError(t, err)
	_, err = (*ConfigType)(nil).decode(raw)
	require.ErrorContains(t, err, `unknown key "x", this plugin takes no configuration`)
}

func TestConfigTypeMustBeObject(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, NewConfigType(5, "").err, "a config is an object")
	require.ErrorContains(t, NewConfigType(make(chan int), "").err, "derive the schema of the config")
	require.ErrorContains(t, NewConfigType(opening{}, "null").err, "is null, want a JSON object")
	require.ErrorContains(t, NewConfigType(opening{}, `{"$ref":"#/nowhere"}`).err, "the schema of the config")
	given := NewConfigType(map[string]any{}, `{"type":"object","properties":{"a":{"type":"integer","default":4}}}`)
	require.NoError(t, given.err)
	got, err := given.decode(nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": 4.0}, got)
}
