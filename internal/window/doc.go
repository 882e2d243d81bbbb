// Package window decides whether a moment lies in a maintenance window and when
// the next one opens.
//
// Windows are Quartz cron expressions in UTC with a precision of one second.
// The package must not know what is done inside a window, and
// it never reads a clock.
package window
