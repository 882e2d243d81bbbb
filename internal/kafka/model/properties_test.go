package model

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestPropertiesAreSortedAndEscaped(t *testing.T) {
	t.Parallel()
	got := Properties{
		"b":          `C:\path`,
		"a key":      " leading and trailing ",
		"c":          "two\nlines\tand\ra\fhalf",
		"d":          "größe 😀",
		"#e!":        "#!=:",
		"with=and:1": "",
	}.Encode()
	want := strings.Join([]string{
		`\#e\!=#!=:`,
		`a\ key=\ leading and trailing `,
		`b=C:\\path`,
		`c=two\nlines\tand\ra\fhalf`,
		`d=gr\u00f6\u00dfe \ud83d\ude00`,
		`with\=and\:1=`,
		``,
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestPropertiesFilesOfOthersAreRead(t *testing.T) {
	t.Parallel()
	got, err := ParseProperties("# comment\n! another\n\n  a = b\nc:d\r\ne f\ng\n")
	must(t, err)
	if diff := cmp.Diff(Properties{"a": "b", "c": "d", "e": "f", "g": ""}, got); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestBrokenPropertiesAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a line that goes on":   `a=b\`,
		"half a character":      `a=\u12`,
		"a senseless character": `a=\uzzzz`,
		"a senseless key":       `\u00zz=b`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if properties, err := ParseProperties(text); !errors.Is(err, ErrProperties) {
				t.Errorf("%q gives %v, %v", text, properties, err)
			}
		})
	}
}

// What is rendered is read back, whatever it holds.
func FuzzPropertiesRoundTrip(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add(" =:#!\\", "\\u0041\n", "ß", " \t\f\r\n")
	f.Add("", "", "😀", "\\")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		for _, text := range []string{key1, value1, key2, value2} {
			if !utf8.ValidString(text) {
				return
			}
		}
		want := Properties{key1: value1, key2: value2}
		encoded := want.Encode()
		for _, r := range encoded {
			if r > '~' || (r < ' ' && r != '\n') {
				t.Fatalf("%q is not plain ASCII", encoded)
			}
		}
		got, err := ParseProperties(encoded)
		if err != nil {
			t.Fatalf("reading %q: %s", encoded, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", encoded, diff)
		}
	})
}

func FuzzParseProperties(f *testing.F) {
	f.Add("a=b\nc : d\n\\u0041\\ x=\\\\")
	f.Add("\xff=\xfe")
	f.Fuzz(func(t *testing.T, text string) {
		properties, err := ParseProperties(text)
		if err != nil {
			return
		}
		again, err := ParseProperties(properties.Encode())
		if err != nil {
			t.Fatalf("reading again: %s", err)
		}
		if diff := cmp.Diff(properties, again); diff != "" {
			t.Errorf("%q (-first +again):\n%s", text, diff)
		}
	})
}
