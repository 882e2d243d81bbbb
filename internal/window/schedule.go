package window

import "time"

// Schedule is one Quartz cron expression. It is made by ParseSchedule.
type Schedule struct {
	seconds, minutes, hours, months set
	// byMonth is true when days are chosen by the day of the month, and false
	// when they are chosen by the day of the week: Quartz never combines them.
	byMonth bool
	ofMonth monthDays
	ofWeek  weekDays
	years   set
}

// Matches tells whether a moment, cut to the second, is in the schedule.
func (s Schedule) Matches(t time.Time) bool {
	t = t.UTC()
	return s.matchesDay(t) && s.hours.has(t.Hour()) && s.minutes.has(t.Minute()) && s.seconds.has(t.Second())
}

// Next returns the first full second after t that is in the schedule, and false
// when there is none up to the end of maxYear.
func (s Schedule) Next(t time.Time) (time.Time, bool) {
	t = t.UTC().Truncate(time.Second).Add(time.Second)
	for day := t; day.Year() <= maxYear; day = s.dayAfter(day) {
		if !s.matchesDay(day) {
			continue
		}
		if next, ok := s.nextInDay(day); ok {
			return next, true
		}
	}
	return time.Time{}, false
}

// nextInDay returns the first match at or after t on the same day.
func (s Schedule) nextInDay(t time.Time) (time.Time, bool) {
	year, month, day := t.Date()
	fromMinute, fromSecond := t.Minute(), t.Second()
	for hour := t.Hour(); hour < 24; hour++ {
		if s.hours.has(hour) {
			for minute := fromMinute; minute < 60; minute++ {
				if second, ok := s.seconds.from(fromSecond, 59); ok && s.minutes.has(minute) {
					return time.Date(year, month, day, hour, minute, second, 0, time.UTC), true
				}
				fromSecond = 0
			}
		}
		fromMinute, fromSecond = 0, 0
	}
	return time.Time{}, false
}

// Ends returns the first full second after t that is not in the schedule, and false when
// all are up to the end of maxYear.
func (s Schedule) Ends(t time.Time) (time.Time, bool) {
	t = t.UTC().Truncate(time.Second).Add(time.Second)
	for day := t; day.Year() <= maxYear; day = midnightAfter(day) {
		if !s.matchesDay(day) {
			return day, true
		}
		if s.takesWholeDays() {
			continue
		}
		if end, ok := s.endInDay(day); ok {
			return end, true
		}
	}
	return time.Time{}, false
}

func (s Schedule) takesWholeDays() bool {
	return len(s.hours) == 24 && len(s.minutes) == 60 && len(s.seconds) == 60
}

// endInDay returns the first second at or after t on the same day that is not in the hours,
// minutes and seconds.
func (s Schedule) endInDay(t time.Time) (time.Time, bool) {
	for end := t; end.Day() == t.Day(); {
		switch {
		case !s.hours.has(end.Hour()) || !s.minutes.has(end.Minute()) || !s.seconds.has(end.Second()):
			return end, true
		case len(s.seconds) < 60:
			end = end.Add(time.Second)
		case len(s.minutes) < 60:
			end = end.Truncate(time.Minute).Add(time.Minute)
		default:
			end = end.Truncate(time.Hour).Add(time.Hour)
		}
	}
	return time.Time{}, false
}

func (s Schedule) matchesDay(t time.Time) bool {
	if !s.years.has(t.Year()) || !s.months.has(int(t.Month())) {
		return false
	}
	if s.byMonth {
		return s.ofMonth.match(t)
	}
	return s.ofWeek.match(t)
}

// dayAfter is the beginning of the next day that may be in the schedule: one that is
// never in it is found so by its years and months, and not day by day.
func (s Schedule) dayAfter(t time.Time) time.Time {
	switch {
	case !s.years.has(t.Year()):
		return time.Date(t.Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC)
	case !s.months.has(int(t.Month())):
		return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	default:
		return midnightAfter(t)
	}
}

func midnightAfter(t time.Time) time.Time {
	year, month, day := t.Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
}

// set holds the values of one field.
type set map[int]bool

func (s set) has(v int) bool { return s[v] }

// from returns the smallest value that is at least low and at most high.
func (s set) from(low, high int) (int, bool) {
	for v := low; v <= high; v++ {
		if s[v] {
			return v, true
		}
	}
	return 0, false
}

// monthDays chooses days by their place in the month.
type monthDays struct {
	days set
	// fromEnd holds distances to the last day: 0 is the last day itself.
	fromEnd set
	// nearest and nearestFromEnd choose the weekday nearest to a day, within its
	// month.
	nearest, nearestFromEnd set
}

// mostMoved is how many days the nearest weekday may be away.
const mostMoved = 2

func (m monthDays) match(t time.Time) bool {
	last := lastDay(t)
	if m.days.has(t.Day()) || m.fromEnd.has(last-t.Day()) {
		return true
	}
	for day := max(1, t.Day()-mostMoved); day <= min(last, t.Day()+mostMoved); day++ {
		if (m.nearest.has(day) || m.nearestFromEnd.has(last-day)) && nearestWeekday(t, day, last) == t.Day() {
			return true
		}
	}
	return false
}

func lastDay(t time.Time) int {
	return time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// nearestWeekday returns the working day nearest to a day of t's month. It never
// leaves the month: the 1st on a Saturday gives Monday the 3rd.
func nearestWeekday(t time.Time, day, last int) int {
	switch time.Date(t.Year(), t.Month(), day, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == last {
			return day - 2
		}
		return day + 1
	case time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday:
	}
	return day
}

// weekDays chooses days by their place in the week: 1 is Sunday, 7 is Saturday.
type weekDays struct {
	days set
	// nth is 1 to 5 for the nth such day of the month, 0 for each.
	nth int
	// last is true for the last such day of the month.
	last bool
}

func (w weekDays) match(t time.Time) bool {
	if !w.days.has(int(t.Weekday()) + 1) {
		return false
	}
	switch {
	case w.last:
		return t.Day() > lastDay(t)-7
	case w.nth > 0:
		return (t.Day()+6)/7 == w.nth
	default:
		return true
	}
}
