package v1_test

import (
	"encoding/json"
	"testing"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func TestConfigValueIsTheTextOfTheProperty(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ json, want string }{
		"a string is taken as it is":                     {json: `"a \"b\" "`, want: `a "b" `},
		"an integer keeps its digits":                    {json: `9223372036854775808`, want: "9223372036854775808"},
		"a fraction keeps its digits":                    {json: `0.10`, want: "0.10"},
		"a boolean is its name":                          {json: `true`, want: "true"},
		"null is the empty text":                         {json: `null`, want: ""},
		"a list is its JSON, decoding must go on":        {json: `[1, "a"]`, want: `[1,"a"]`},
		"an object is its JSON, decoding must go on too": {json: `{"a": 1}`, want: `{"a":1}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var config map[string]kafkav1.ConfigValue
			if err := json.Unmarshal([]byte(`{"key": `+test.json+`}`), &config); err != nil {
				t.Fatal(err)
			}
			if got := string(config["key"]); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzConfigValue(f *testing.F) {
	for _, seed := range []string{`"text"`, `1e3`, `null`, `[]`, `{"a":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value kafkav1.ConfigValue
		if json.Unmarshal(data, &value) != nil {
			t.Skip()
		}
		written, err := json.Marshal(value)
		if err != nil {
			t.Fatalf("writing %q: %v", value, err)
		}
		var again kafkav1.ConfigValue
		if err := json.Unmarshal(written, &again); err != nil || again != value {
			t.Errorf("%q became %q on the way through JSON (%v)", value, again, err)
		}
	})
}
