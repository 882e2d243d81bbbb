package window_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/window"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// answer is one line of the golden table.
type answer struct {
	Matches string
	Next    string
}

func TestSchedulesAnswerAsQuartzDoes(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/quartz/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		schedule, err := window.ParseSchedule(columns[0])
		if columns[1] == "invalid" {
			if err == nil {
				t.Errorf("%q is invalid for Quartz and was accepted", columns[0])
			}
			continue
		}
		if err != nil {
			t.Errorf("%q is valid for Quartz: %v", columns[0], err)
			continue
		}
		moment := at(t, columns[1])
		want := answer{Matches: columns[2], Next: columns[3]}
		if diff := cmp.Diff(want, ask(schedule, moment)); diff != "" {
			t.Errorf("%q at %s (-Quartz +ours):\n%s", columns[0], columns[1], diff)
		}
	}
}

func ask(s window.Schedule, moment time.Time) answer {
	a := answer{Matches: "false", Next: "never"}
	if s.Matches(moment) {
		a.Matches = "true"
	}
	if next, ok := s.Next(moment); ok {
		a.Next = next.Format(time.RFC3339)
	}
	return a
}

func TestSchedulesFollowTheDocumentedMeaningWhereQuartzFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ expression, after, want string }{
		"the last day of a month with 30 days":               {"0 0 12 L * ?", "2026-04-02T00:00:00Z", "2026-04-30T12:00:00Z"},
		"the last day of February":                           {"0 0 12 L 2 ?", "2026-01-01T00:00:00Z", "2026-02-28T12:00:00Z"},
		"the last day of February in a leap year":            {"0 0 12 L 2 ?", "2028-01-01T00:00:00Z", "2028-02-29T12:00:00Z"},
		"three days before the end of April":                 {"0 0 12 L-3 4 ?", "2026-01-01T00:00:00Z", "2026-04-27T12:00:00Z"},
		"the last weekday of May 2026, which ends on Sunday": {"0 0 12 LW 5 ?", "2026-01-01T00:00:00Z", "2026-05-29T12:00:00Z"},
		"the weekday nearest to Saturday the 1st":            {"0 0 12 1W 8 ?", "2026-01-01T00:00:00Z", "2026-08-03T12:00:00Z"},
		"the weekday nearest to Sunday the 15th":             {"0 0 12 15W 11 ?", "2026-01-01T00:00:00Z", "2026-11-16T12:00:00Z"},
		"the weekday nearest to Saturday the 14th":           {"0 0 12 14W 11 ?", "2026-01-01T00:00:00Z", "2026-11-13T12:00:00Z"},
		"the weekday nearest to the day before the last":     {"0 0 12 L-1W 5 ?", "2026-01-01T00:00:00Z", "2026-05-29T12:00:00Z"},
		"the weekday nearest to a day that is one":           {"0 0 12 17W 11 ?", "2026-01-01T00:00:00Z", "2026-11-17T12:00:00Z"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, err := window.ParseSchedule(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			next, ok := schedule.Next(at(t, tc.after))
			if got := next.Format(time.RFC3339); !ok || got != tc.want {
				t.Errorf("Next(%s) = %s, %t; want %s", tc.after, got, ok, tc.want)
			}
			if !schedule.Matches(next) {
				t.Errorf("Next returned %s, which does not match", next)
			}
		})
	}
}

func TestWhatQuartzSkipsOverInSilenceIsRefused(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"", "0 L 0 ? * *", "5X 0 0 ? * *", "0 0 0 ? * MON/2", "0 0 0 ? * 2#1,4", "0 0 0 ?,1 * ?", "+5 0 0 ? * *", "0 0 0 ? * L-1", "0 0 0 W * ?",
	} {
		_, err := window.ParseSchedule(expression)
		var invalid *window.InvalidError
		if !errors.As(err, &invalid) || invalid.Expression != expression {
			t.Errorf("ParseSchedule(%q) = %v, want an InvalidError that names it", expression, err)
		}
	}
}

func TestAnInvalidWindowIsNamedAmongOthers(t *testing.T) {
	t.Parallel()
	windows, err := window.Parse([]string{"* * * ? * *", "every night"})
	var invalid *window.InvalidError
	if !errors.As(err, &invalid) || invalid.Expression != "every night" {
		t.Fatalf("Parse = %v, want an InvalidError for the second expression", err)
	}
	if next, ok := windows.At(at(t, "2026-11-21T05:00:00Z")).Opens(); ok {
		t.Errorf("a window that nobody described opens at %s", next)
	}
}

func TestNoWindowsMeanAlwaysOpen(t *testing.T) {
	t.Parallel()
	none, err := window.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := at(t, "2026-11-21T05:00:00Z")
	if next, ok := none.At(now).Opens(); !none.At(now).Open() || ok {
		t.Errorf("open %t, opens again at %s %t; want open for ever", none.At(now).Open(), next, ok)
	}
}

func TestTheEarliestOfSeveralWindowsOpensNext(t *testing.T) {
	t.Parallel()
	windows, err := window.Parse([]string{"* * 4 ? * MON", "* * 2 ? * MON", "* * 1 29 2 ? 2020"})
	if err != nil {
		t.Fatal(err)
	}
	saturday := at(t, "2026-11-21T05:00:00Z")
	if windows.At(saturday).Open() {
		t.Error("open on Saturday")
	}
	if next, ok := windows.At(saturday).Opens(); !ok || !next.Equal(at(t, "2026-11-23T02:00:00Z")) {
		t.Errorf("Opens = %s, %t", next, ok)
	}
	if !windows.At(at(t, "2026-11-23T04:59:59Z")).Open() || windows.At(at(t, "2026-11-23T05:00:00Z")).Open() {
		t.Error("the window does not end with its hour")
	}
}

func TestAWindowOfThePastNeverOpens(t *testing.T) {
	t.Parallel()
	windows, err := window.Parse([]string{"* * * ? * * 2020"})
	if err != nil {
		t.Fatal(err)
	}
	if next, ok := windows.At(at(t, "2026-11-21T05:00:00Z")).Opens(); ok {
		t.Errorf("Opens = %s", next)
	}
}

func TestAWindowOnADayThatThereIsNotNeverOpens(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"* * * 30 2 ?", "* * * 31W 4,6,9,11 ?", "* * * 29 2 ? 2027"} {
		windows, err := window.Parse([]string{expression})
		if err != nil {
			t.Fatal(err)
		}
		if next, ok := windows.At(at(t, "2026-11-21T05:00:00Z")).Opens(); ok {
			t.Errorf("%s opens at %s", expression, next)
		}
	}
}

// As many windows as a Kafka may have, none of which ever opens: each is looked for until
// the end of time.
func BenchmarkTheMostWindowsThatNeverOpen(b *testing.B) {
	for name, expression := range map[string]string{"of the past": "* * * ? * * 2020", "on no day": "* * * 30W 2 ?"} {
		b.Run(name, func(b *testing.B) {
			windows, err := window.Parse(slices.Repeat([]string{expression}, 64))
			if err != nil {
				b.Fatal(err)
			}
			now := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
			for b.Loop() {
				windows.At(now)
			}
		})
	}
}

func TestAWindowThatIsOpenOpensAgainAfterItHasClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		windows   []string
		now, want string
	}{
		"the next day":                    {[]string{"* * 4 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-22T04:00:00Z"},
		"the next minute":                 {[]string{"0-9 * * ? * *"}, "2026-11-21T04:30:05Z", "2026-11-21T04:31:00Z"},
		"the next hour":                   {[]string{"* 0-9 * ? * *"}, "2026-11-21T04:09:59Z", "2026-11-21T05:00:00Z"},
		"past midnight":                   {[]string{"* * 22-2 ? * *"}, "2026-11-21T23:00:00Z", "2026-11-22T22:00:00Z"},
		"past days that are open":         {[]string{"* * * ? * MON-WED"}, "2026-11-23T08:00:00Z", "2026-11-30T00:00:00Z"},
		"past a window that follows":      {[]string{"* * 4 ? * *", "* * 5 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-22T04:00:00Z"},
		"when another one opens":          {[]string{"* * 4 ? * *", "* * 9 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-21T09:00:00Z"},
		"never, when it stays open":       {[]string{"* * * ? * *"}, "2026-11-21T04:30:00Z", ""},
		"never, when it was the last":     {[]string{"* * * 21 11 ? 2026"}, "2026-11-21T04:30:00Z", ""},
		"never, as far as anybody counts": {[]string{"0/2 * * ? * *", "1/2 * * ? * *"}, "2026-11-21T04:30:00Z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			windows, err := window.Parse(c.windows)
			if err != nil {
				t.Fatal(err)
			}
			next, ok := windows.At(at(t, c.now)).Opens()
			if ok != (c.want != "") || ok && !next.Equal(at(t, c.want)) {
				t.Errorf("Opens = %s, %t; want %q", next, ok, c.want)
			}
		})
	}
}

func TestTheLastWindowBeforeAMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		windows  []string
		now, due string
		want     bool
	}{
		"the next one is later":                  {[]string{"* * 4 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-21T20:00:00Z", true},
		"in its first second":                    {[]string{"* * 4 ? * *"}, "2026-11-21T04:00:00Z", "2026-11-21T20:00:00Z", true},
		"the next one is in between":             {[]string{"* * 4 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-22T20:00:00Z", false},
		"it is closed just before then":          {[]string{"* * 4 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-21T05:00:01Z", true},
		"it is closed just then":                 {[]string{"* * 4 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-21T05:00:00Z", true},
		"it is still open then":                  {[]string{"* * 4 ? * *"}, "2026-11-21T04:00:00Z", "2026-11-21T04:59:00Z", true},
		"it is open for months, and then":        {[]string{"* * * ? 1-6 *"}, "2026-03-01T00:00:00Z", "2026-05-01T00:00:00Z", false},
		"it is open for months, a day before":    {[]string{"* * * ? 1-6 *"}, "2026-04-30T00:00:00Z", "2026-05-01T00:00:00Z", true},
		"it is open for months, a second sooner": {[]string{"* * * ? 1-6 *"}, "2026-04-29T23:59:59Z", "2026-05-01T00:00:00Z", false},
		"the next one opens an hour before":      {[]string{"* * 4 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-22T05:00:00Z", false},
		"the next one opens later than that":     {[]string{"* * 4 ? * *"}, "2026-11-21T04:30:00Z", "2026-11-22T04:59:59Z", true},
		"none is open now":                       {[]string{"* * 4 ? * *"}, "2026-11-21T05:00:00Z", "2026-11-21T20:00:00Z", false},
		"no other one opens at any time":         {[]string{"* * 4 21 11 ? 2026"}, "2026-11-21T04:30:00Z", "2027-11-21T20:00:00Z", true},
		"without windows none is the last":       {nil, "2026-11-21T04:30:00Z", "2026-11-21T20:00:00Z", false},
		"one that stays open is never that":      {[]string{"* * * ? * *"}, "2026-11-21T04:30:00Z", "2026-11-21T20:00:00Z", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			windows, err := window.Parse(c.windows)
			if err != nil {
				t.Fatal(err)
			}
			if got := windows.At(at(t, c.now)).IsLastBefore(at(t, c.due)); got != c.want {
				t.Errorf("IsLastBefore = %t, want %t", got, c.want)
			}
		})
	}
}

func TestWindowsCountInUTC(t *testing.T) {
	t.Parallel()
	windows, err := window.Parse([]string{"* * 4 ? * *"})
	if err != nil {
		t.Fatal(err)
	}
	east := time.FixedZone("east", 5*3600)
	if !windows.At(time.Date(2026, 11, 21, 9, 30, 0, 0, east)).Open() {
		t.Error("09:30 at +05:00 is 04:30 UTC and shall be open")
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, seed := range []string{"* * 0-1 ? * SUN,MON *", "0 0 12 L-3W * ?", "0 0 12 ? 11-2 6#3 2026/2", "*/0 22-2/3 * 1W,L ? *"} {
		f.Add(seed)
	}
	start := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression string) {
		schedule, err := window.ParseSchedule(expression)
		if err != nil {
			return
		}
		next, ok := schedule.Next(start)
		if ok && (!next.After(start) || !schedule.Matches(next)) {
			t.Errorf("%q: Next(%s) = %s, which is not after it or does not match", expression, start, next)
		}
		end, ok := schedule.Ends(start)
		if ok && (!end.After(start) || schedule.Matches(end) || end.After(start.Add(time.Second)) && !schedule.Matches(end.Add(-time.Second))) {
			t.Errorf("%q: Ends(%s) = %s, which is not after it, or matches, or is not the first that does not", expression, start, end)
		}
	})
}
