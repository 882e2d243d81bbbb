package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Properties are the settings of a Kafka node.
type Properties map[string]string

// Encode renders the properties as a Java properties file: one line each,
// sorted by key, ASCII only, so that java.util.Properties reads back what was
// put in.
func (p Properties) Encode() string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		text.WriteString(escapeKey(key))
		text.WriteByte('=')
		text.WriteString(escapeValue(p[key]))
		text.WriteByte('\n')
	}
	return text.String()
}

func escapeKey(key string) string {
	var text strings.Builder
	for _, r := range key {
		switch r {
		case ' ', ':', '=', '#', '!':
			text.WriteByte('\\')
			text.WriteRune(r)
		default:
			escapeRune(&text, r)
		}
	}
	return text.String()
}

func escapeValue(value string) string {
	var text strings.Builder
	for at, r := range value {
		if r == ' ' && at == 0 {
			text.WriteString(`\ `)
			continue
		}
		escapeRune(&text, r)
	}
	return text.String()
}

func escapeRune(text *strings.Builder, r rune) {
	switch {
	case r == '\\':
		text.WriteString(`\\`)
	case r == '\t':
		text.WriteString(`\t`)
	case r == '\n':
		text.WriteString(`\n`)
	case r == '\r':
		text.WriteString(`\r`)
	case r == '\f':
		text.WriteString(`\f`)
	case r >= ' ' && r <= '~':
		text.WriteRune(r)
	default:
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(text, `\u%04x`, unit)
		}
	}
}

// ErrProperties is wrapped by every error of ParseProperties.
var ErrProperties = errors.New("not a properties file")

// ParseProperties reads a properties file as java.util.Properties does, of the
// form that Encode writes: one setting a line, no continued lines. It also takes
// comments, blank lines and the separators ':' and blank.
func ParseProperties(text string) (Properties, error) {
	properties := Properties{}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		keyText, valueText := splitProperty(line)
		key, err := unescape(keyText)
		if err != nil {
			return nil, err
		}
		value, err := unescape(valueText)
		if err != nil {
			return nil, fmt.Errorf("property %s: %w", key, err)
		}
		properties[key] = value
	}
	return properties, nil
}

// splitProperty splits a line at the first separator that is not escaped.
func splitProperty(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	key = line[:end]
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}

func unescape(text string) (string, error) {
	units := make([]uint16, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			units = append(units, uint16(text[i]))
			continue
		}
		i++
		switch {
		case i == len(text):
			return "", fmt.Errorf("a line ends with a backslash: %w", ErrProperties)
		case text[i] != 'u':
			units = append(units, unescapeByte(text[i]))
		case i+4 >= len(text):
			return "", fmt.Errorf("%q is no character: %w", text[i:], ErrProperties)
		default:
			unit, err := strconv.ParseUint(text[i+1:i+5], 16, 16)
			if err != nil {
				return "", fmt.Errorf("%q is no character: %w", text[i:i+5], ErrProperties)
			}
			units = append(units, uint16(unit))
			i += 4
		}
	}
	return string(utf16.Decode(units)), nil
}

func unescapeByte(b byte) uint16 {
	switch b {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 'f':
		return '\f'
	default:
		return uint16(b)
	}
}
