package featuregate

import (
	"errors"
	"strings"
	"testing"
)

func TestGatesAreOffUntilTheyAreTurnedOn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]State{
		"":                       Off,
		"  ":                     Off,
		"+CertManagerCaType":     On,
		" +CertManagerCaType \n": On,
		"-CertManagerCaType":     Off,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			gates, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if gates.CertManagerCaType != want {
				t.Errorf("the gate is %s, want %s", gates.CertManagerCaType, want)
			}
		})
	}
}

func TestGatesAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for _, gates := range []Gates{{}, {CertManagerCaType: On}} {
		if read, err := Parse(gates.Setting()); err != nil || read != gates {
			t.Errorf("%q is read as %+v (%v), want %+v", gates.Setting(), read, err, gates)
		}
	}
}

func TestABadSettingIsNamedWithTheKnownGates(t *testing.T) {
	t.Parallel()
	for text, test := range map[string]struct {
		want  error
		names string
	}{
		"+Certmanagercatype":                    {ErrUnknown, `"Certmanagercatype"`},
		"+CertManagerCaType,-UseStrimziPodSets": {ErrUnknown, `"UseStrimziPodSets"`},
		"+CertManagerCaType, CertManagerCaType": {ErrMalformed, `"CertManagerCaType"`},
		"CertManagerCaType=true":                {ErrMalformed, `"CertManagerCaType=true"`},
		"+CertManagerCaType,":                   {ErrMalformed, `""`},
		"+ CertManagerCaType":                   {ErrUnknown, `" CertManagerCaType"`},
		"+":                                     {ErrMalformed, `"+"`},
		"-":                                     {ErrMalformed, `"-"`},
		"+CertManagerCaType +Other":             {ErrUnknown, `"CertManagerCaType +Other"`},
		"+CertManagerCaType,-CertManagerCaType": {ErrRepeated, `"CertManagerCaType"`},
		"+CertManagerCaType,+CertManagerCaType": {ErrRepeated, `"CertManagerCaType"`},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			gates, err := Parse(text)
			if !errors.Is(err, test.want) {
				t.Fatalf("got error %v, want %v", err, test.want)
			}
			for _, part := range []string{test.names, "known gates: CertManagerCaType"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the message does not name %s: %v", part, err)
				}
			}
			if gates != (Gates{}) {
				t.Errorf("with an error, gates are set: %+v", gates)
			}
		})
	}
}
