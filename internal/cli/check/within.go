package check

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// errNotAPeriod is a text that is no time, and errNoTime one that leaves nothing to ask about.
var (
	errNotAPeriod = errors.New("use days or hours, for example 30d or 12h")
	errNoTime     = errors.New("use a time longer than zero, for example 30d or 12h")
)

// ParsePeriod reads 30d, 12h, 1d12h and whatever Go calls a duration.
func ParsePeriod(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	count, err := strconv.ParseUint(days, 10, 32)
	if err != nil || count > uint64(math.MaxInt64/day)-1 {
		return 0, fmt.Errorf("%q is not a time: %w", text, errNotAPeriod)
	}
	period := time.Duration(count) * day
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 || more > math.MaxInt64-period {
			return 0, fmt.Errorf("%q is not a time: %w", text, errNotAPeriod)
		}
		period += more
	}
	if period == 0 {
		return 0, fmt.Errorf("%q is not a time that certificates can expire within: %w", text, errNoTime)
	}
	return period, nil
}
