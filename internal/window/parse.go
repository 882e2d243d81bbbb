package window

import (
	"fmt"
	"strconv"
	"strings"
)

// maxYear is the last year that a schedule can name.
const maxYear = 2199

// field describes one of the seven fields.
type field struct {
	name     string
	min, max int
	// names maps the three letters of a month or a day to its number.
	names []string
}

func (f field) number(text string) (int, error) {
	for i, name := range f.names {
		if name == text {
			return i + f.min, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max || strings.HasPrefix(text, "+") {
		return 0, fmt.Errorf("%s: %q is not between %d and %d", f.name, text, f.min, f.max)
	}
	return n, nil
}

func fields() [7]field {
	return [7]field{
		{name: "seconds", max: 59},
		{name: "minutes", max: 59},
		{name: "hours", max: 23},
		{name: "day of month", min: 1, max: 31},
		{name: "month", min: 1, max: 12, names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
		{name: "day of week", min: 1, max: 7, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
		{name: "year", min: 1970, max: maxYear},
	}
}

// noDay in one of the two day fields leaves the choice to the other one.
const noDay = "?"

// ParseSchedule reads an expression of 6 or 7 fields: seconds, minutes, hours,
// days of the month, months, days of the week (1 is Sunday), and optionally years.
// Exactly one of the two day fields must be "?". Characters that Quartz skips
// over in silence are errors here. The error is an *InvalidError.
func ParseSchedule(expression string) (Schedule, error) {
	s, err := parse(strings.Fields(strings.ToUpper(expression)))
	if err != nil {
		return Schedule{}, &InvalidError{Expression: expression, Reason: err.Error()}
	}
	return s, nil
}

func parse(texts []string) (Schedule, error) {
	if len(texts) != 6 && len(texts) != 7 {
		return Schedule{}, fmt.Errorf("it has %d fields: 6 or 7 are needed (seconds minutes hours day-of-month month day-of-week [year])", len(texts))
	}
	if len(texts) == 6 {
		texts = append(texts, "*")
	}
	if (texts[3] == noDay) == (texts[5] == noDay) {
		return Schedule{}, fmt.Errorf("exactly one of day of month (%s) and day of week (%s) must be %s", texts[3], texts[5], noDay)
	}
	all := fields()
	s := Schedule{byMonth: texts[5] == noDay}
	for _, target := range []struct {
		into  *set
		index int
	}{{&s.seconds, 0}, {&s.minutes, 1}, {&s.hours, 2}, {&s.months, 4}, {&s.years, 6}} {
		values, err := all[target.index].list(texts[target.index])
		if err != nil {
			return Schedule{}, err
		}
		*target.into = values
	}
	var err error
	if s.byMonth {
		s.ofMonth, err = parseMonthDays(all[3], texts[3])
	} else {
		s.ofWeek, err = parseWeekDays(all[5], texts[5])
	}
	return s, err
}

// list reads values, ranges and steps separated by commas.
func (f field) list(text string) (set, error) {
	values := set{}
	for item := range strings.SplitSeq(text, ",") {
		if err := f.addItem(values, item); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// addItem reads one of *, n, n-m, each optionally with a step. A step of 0 is
// the start alone.
func (f field) addItem(values set, item string) error {
	span, stepText, stepped := strings.Cut(item, "/")
	if !stepped {
		low, high, err := f.span(span)
		if err != nil {
			return err
		}
		f.addRange(values, low, high, 1)
		return nil
	}
	step, err := f.step(stepText)
	if err != nil {
		return err
	}
	low, high, err := f.steppedSpan(span)
	if err != nil {
		return err
	}
	if step == 0 && span != "*" && span != "" {
		high = low
	}
	f.addRange(values, low, high, max(step, 1))
	return nil
}

// span reads what stands before a step, or alone.
func (f field) span(text string) (low, high int, err error) {
	if text == "*" {
		return f.min, f.max, nil
	}
	lowText, highText, ranged := strings.Cut(text, "-")
	if low, err = f.number(lowText); err != nil || !ranged {
		return low, low, err
	}
	if high, err = f.number(highText); err != nil {
		return 0, 0, err
	}
	if f.max == maxYear && high < low {
		return 0, 0, fmt.Errorf("%s: %q ends before it begins", f.name, text)
	}
	return low, high, nil
}

// steppedSpan reads what stands before a step: without an end, it goes on to the
// end of the field.
func (f field) steppedSpan(text string) (low, high int, err error) {
	if text == "" {
		return f.min, f.max, nil
	}
	if strings.ContainsAny(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return 0, 0, fmt.Errorf("%s: %q: Quartz ignores a step after a name: write numbers", f.name, text)
	}
	low, high, err = f.span(text)
	if !strings.ContainsAny(text, "*-") {
		high = f.max
	}
	return low, high, err
}

func (f field) step(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > f.max {
		return 0, fmt.Errorf("%s: step %q is not between 0 and %d", f.name, text, f.max)
	}
	return n, nil
}

// addRange adds low to high; a range that ends before it begins goes over the end
// of the field, as FRI-MON and 22-2 do.
func (f field) addRange(values set, low, high, step int) {
	size := f.max - f.min + 1
	if high < low {
		high += size
	}
	for v := low; v <= high; v += step {
		values[f.min+(v-f.min)%size] = true
	}
}

// parseMonthDays reads lists of days, L, L-n, each optionally with W.
func parseMonthDays(f field, text string) (monthDays, error) {
	m := monthDays{days: set{}, fromEnd: set{}, nearest: set{}, nearestFromEnd: set{}}
	for item := range strings.SplitSeq(text, ",") {
		day, weekday := strings.CutSuffix(item, "W")
		offset, fromEnd := strings.CutPrefix(day, "L")
		switch {
		case fromEnd:
			n, err := endOffset(offset)
			if err != nil {
				return m, err
			}
			if weekday {
				m.nearestFromEnd[n] = true
			} else {
				m.fromEnd[n] = true
			}
		case weekday:
			n, err := f.number(day)
			if err != nil {
				return m, err
			}
			m.nearest[n] = true
		default:
			if err := f.addItem(m.days, item); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// endOffset reads what follows L: nothing, or -n.
func endOffset(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	digits, found := strings.CutPrefix(text, "-")
	n, err := strconv.Atoi(digits)
	if !found || err != nil || n < 0 || n > 30 {
		return 0, fmt.Errorf("day of month: L%s is not L or L-0 to L-30", text)
	}
	return n, nil
}

// parseWeekDays reads a list of days, or one day with L (the last such day of the
// month) or #n (the nth). L alone is Saturday.
func parseWeekDays(f field, text string) (weekDays, error) {
	if text == "L" {
		return weekDays{days: set{7: true}}, nil
	}
	if day, found := strings.CutSuffix(text, "L"); found {
		n, err := f.number(day)
		return weekDays{days: set{n: true}, last: true}, err
	}
	if day, nthText, found := strings.Cut(text, "#"); found {
		n, err := f.number(day)
		if err != nil {
			return weekDays{}, err
		}
		nth, err := strconv.Atoi(nthText)
		if err != nil || nth < 1 || nth > 5 {
			return weekDays{}, fmt.Errorf("day of week: # must be followed by a number between 1 and 5, not %q", nthText)
		}
		return weekDays{days: set{n: true}, nth: nth}, nil
	}
	days, err := f.list(text)
	return weekDays{days: days}, err
}
